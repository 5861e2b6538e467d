const PATHS = {
  search: "M7 2.5a4.5 4.5 0 1 0 0 9 4.5 4.5 0 0 0 0-9M10.3 10.3 14 14",
  hot: "M3 2.5v4a2 2 0 0 0 2 2h4a2 2 0 0 1 2 2v3M8.5 11.2 11 13.7l2.5-2.5",
  expand: "M4 6.5 8 2.5l4 4M4 9.5l4 4 4-4",
  collapse: "M4 2.5l4 4 4-4M4 13.5l4-4 4 4",
  sort: "M3 3.5v9M3 12.5l-1.5-2M3 12.5l1.5-2M7 4h7M7 8h5M7 12h3",
  filter: "M2.5 3.5h11M4.5 8h7M6.5 12.5h3",
  copy: "M5.5 5.5h8v8h-8zM3.5 10.5h-1v-8h8v1",
  cut: "M4 2.5l6.2 8.2M12 2.5L5.8 10.7M4.4 10a1.9 1.9 0 1 0 0 3.8A1.9 1.9 0 0 0 4.4 10M11.6 10a1.9 1.9 0 1 0 0 3.8 1.9 1.9 0 0 0 0-3.8",
  save: "M8 2.5v7.5M5 7l3 3 3-3M2.5 13.5h11",
  light:
    "M8 5a3 3 0 1 0 0 6 3 3 0 0 0 0-6M8 1v1.6M8 13.4V15M1 8h1.6M13.4 8H15M3.1 3.1l1.1 1.1M11.8 11.8l1.1 1.1M12.9 3.1l-1.1 1.1M4.2 11.8l-1.1 1.1",
  dark: "M13.5 9.8A6 6 0 0 1 6.2 2.5a6 6 0 1 0 7.3 7.3z",
  auto: "M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2v12",
  help: "M8 1.8a6.2 6.2 0 1 0 0 12.4A6.2 6.2 0 0 0 8 1.8M6.2 6.3a1.8 1.8 0 1 1 2.6 1.6c-.6.3-.8.6-.8 1.3M8 11.4v.1",
  palette: "M8 1.8S3.4 6.6 3.4 9.7a4.6 4.6 0 0 0 9.2 0C12.6 6.6 8 1.8 8 1.8M8 11.9a2.2 2.2 0 0 1-2.2-2.2",
  next: "M4 6l4 4 4-4",
  previous: "M4 10l4-4 4 4",
  close: "M4 4l8 8M12 4l-8 8",
  all: "M2.5 8.5l3 3 6-7M8 11.5l6-7",
  overview: "M2.5 3.5h11M2.5 6.5h7M2.5 9.5h9M2.5 12.5h4",
  time: "M2.5 13.5h11M3.5 11.5v-3M6.5 11.5v-7M9.5 11.5v-5M12.5 11.5v-2",
  timeline: "M2.5 4h6M5.5 8h8M3.5 12h5M10.5 12h3",
  link: "M6.5 9.5a2.5 2.5 0 0 0 3.6 0l2.6-2.6a2.5 2.5 0 0 0-3.6-3.6l-.8.8M9.5 6.5a2.5 2.5 0 0 0-3.6 0L3.3 9.1a2.5 2.5 0 0 0 3.6 3.6l.8-.8",
};

export const Icon = ({ name }) => (
  <svg class="tc-icon" viewBox="0 0 16 16" aria-hidden="true">
    <path d={PATHS[name]} />
  </svg>
);

/** A button of one icon; `on` makes it a switch. */
export const Tool = ({ icon, title, onClick, on, disabled }) => (
  <button type="button" class="tc-tool" title={title} aria-label={title} aria-pressed={on} disabled={disabled} onClick={onClick}>
    <Icon name={icon} />
  </button>
);

/** One choice of several. */
export const Choice = ({ label, options, value, onChange }) => (
  <div class="tc-choice" role="radiogroup" aria-label={label}>
    {Object.entries(options).map(([key, { title, hint }]) => (
      <button
        type="button"
        role="radio"
        aria-checked={key === value}
        tabIndex={key === value ? 0 : -1}
        title={hint}
        data-value={key}
        onClick={() => onChange(key)}
        onKeyDown={(event) => {
          const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
          if (!step) return;
          event.preventDefault();
          const keys = Object.keys(options);
          const next = keys[(keys.indexOf(key) + step + keys.length) % keys.length];
          event.currentTarget.parentElement.querySelector(`[data-value="${next}"]`).focus();
          onChange(next);
        }}
      >
        {title}
      </button>
    ))}
  </div>
);
