/* Regions of the program itself. */
void record_enter(const char *name);
void record_leave(void);
