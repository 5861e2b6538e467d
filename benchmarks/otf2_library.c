/* Read all events of an OTF2 archive with the format's own library and callbacks that do nothing.
 *
 * The reader is used the way the library's Python package and its examples do: all locations selected, local definitions
 * read, then one local event reader per location, one after the other, in one thread. EVENTS lists the names of all event
 * types; peers.py makes it from the installed header.
 */
#include <otf2/otf2.h>
#include <stdint.h>
#include <stdlib.h>

#include "otf2_events.h"

static uint64_t locations[1 << 20];
static uint64_t n_locations;
static OTF2_Reader *reader;

static OTF2_CallbackCode
on_location(void *data, OTF2_LocationRef self, OTF2_StringRef name, OTF2_LocationType type, uint64_t n_events,
            OTF2_LocationGroupRef group)
{
    (void)data, (void)name, (void)type, (void)n_events, (void)group;
    if (n_locations < sizeof locations / sizeof *locations)
        locations[n_locations++] = self;
    return OTF2_CALLBACK_SUCCESS;
}

/* One for all types: the arguments a callee ignores are cleaned up by the caller. */
static OTF2_CallbackCode
on_event(void)
{
    return OTF2_CALLBACK_SUCCESS;
}

/* Opens the archive and reads definitions; returns 0, or -1 if that cannot be done. */
int
open_archive(const char *path)
{
    uint64_t n;
    if (reader)
        OTF2_Reader_Close(reader);
    reader = OTF2_Reader_Open(path);
    if (!reader)
        return -1;
    OTF2_Reader_SetSerialCollectiveCallbacks(reader);
    n_locations = 0;
    OTF2_GlobalDefReader *definitions = OTF2_Reader_GetGlobalDefReader(reader);
    OTF2_GlobalDefReaderCallbacks *on_definition = OTF2_GlobalDefReaderCallbacks_New();
    OTF2_GlobalDefReaderCallbacks_SetLocationCallback(on_definition, on_location);
    OTF2_Reader_RegisterGlobalDefCallbacks(reader, definitions, on_definition, NULL);
    OTF2_GlobalDefReaderCallbacks_Delete(on_definition);
    OTF2_Reader_ReadAllGlobalDefinitions(reader, definitions, &n);
    OTF2_Reader_CloseGlobalDefReader(reader, definitions);
    for (uint64_t i = 0; i < n_locations; i++)
        OTF2_Reader_SelectLocation(reader, locations[i]);
    int has_definitions = OTF2_Reader_OpenDefFiles(reader) == OTF2_SUCCESS;
    OTF2_Reader_OpenEvtFiles(reader);
    for (uint64_t i = 0; has_definitions && i < n_locations; i++) {
        OTF2_DefReader *local = OTF2_Reader_GetDefReader(reader, locations[i]);
        if (local) {
            OTF2_Reader_ReadAllLocalDefinitions(reader, local, &n);
            OTF2_Reader_CloseDefReader(reader, local);
        }
    }
    if (has_definitions)
        OTF2_Reader_CloseDefFiles(reader);
    return 0;
}

/* Returns the number of events read, or -1. */
int64_t
read_events(void)
{
    uint64_t n, total = 0;
    OTF2_EvtReaderCallbacks *callbacks = OTF2_EvtReaderCallbacks_New();
#define REGISTER(name) \
    OTF2_EvtReaderCallbacks_Set##name##Callback(callbacks, (OTF2_EvtReaderCallback_##name)(void (*)(void))on_event);
    EVENTS(REGISTER)
    for (uint64_t i = 0; i < n_locations; i++) {
        OTF2_EvtReader *events = OTF2_Reader_GetEvtReader(reader, locations[i]);
        if (!events)
            continue;
        OTF2_Reader_RegisterEvtCallbacks(reader, events, callbacks, NULL);
        if (OTF2_Reader_ReadAllLocalEvents(reader, events, &n) != OTF2_SUCCESS)
            return -1;
        total += n;
        OTF2_Reader_CloseEvtReader(reader, events);
    }
    OTF2_EvtReaderCallbacks_Delete(callbacks);
    OTF2_Reader_CloseEvtFiles(reader);
    return (int64_t)total;
}
