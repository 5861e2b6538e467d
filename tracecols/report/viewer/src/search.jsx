import { useLayoutEffect, useMemo, useReducer, useRef, useState } from "preact/hooks";
import { Tool } from "./icons.jsx";

/** A text with the place of a search marked. */
export function Marked({ text, wanted }) {
  const at = wanted ? text.toLowerCase().indexOf(wanted.toLowerCase()) : -1;
  if (at < 0) return text;
  return [text.slice(0, at), <mark>{text.slice(at, at + wanted.length)}</mark>, text.slice(at + wanted.length)];
}

/** Search in a tree: while one types, its rows are those that match, with what is above and below them. */
export function Search({ model, pane, tree, wanted, setWanted, close }) {
  const input = useRef();
  const [only, setOnly] = useState(true);
  const found = useMemo(() => model.search(pane, wanted), [pane, tree, wanted]);
  // where the search stands, also for a second key before the first is drawn
  const place = useRef(-1);
  const [, redraw] = useReducer((n) => n + 1, 0);
  useLayoutEffect(() => input.current.focus(), []);
  useLayoutEffect(() => {
    place.current = -1;
    tree.filter(found.length ? found : null, only);
    // so that what matches is seen, whether the others are hidden or not
    if (found.length) tree.show(found[0]);
    redraw();
  }, [found, only]);
  useLayoutEffect(() => () => tree.filter(null), [tree]);
  const go = (step) => {
    if (!found.length) return;
    const from = place.current < 0 ? (step > 0 ? -1 : 0) : place.current;
    place.current = (from + step + found.length) % found.length;
    redraw();
    tree.reveal([found[place.current]]);
  };
  const at = place.current;
  return (
    <div class="tc-search">
      <input
        ref={input}
        type="search"
        value={wanted}
        placeholder="Search"
        aria-label="Search"
        onInput={(event) => setWanted(event.currentTarget.value)}
        onKeyDown={(event) => {
          event.stopPropagation();
          if (event.key === "Enter") go(event.shiftKey ? -1 : 1);
          if (event.key === "Escape") close();
        }}
      />
      <span class="tc-found" role="status">
        {wanted.trim() ? (found.length ? `${at >= 0 ? `${at + 1} of ` : ""}${found.length}` : "none") : ""}
      </span>
      <Tool icon="filter" title="Only rows that match, with what is above and below them" on={only} onClick={() => setOnly(!only)} />
      <Tool icon="previous" title="Previous (Shift+Enter)" disabled={!found.length} onClick={() => go(-1)} />
      <Tool icon="next" title="Next (Enter)" disabled={!found.length} onClick={() => go(1)} />
      <Tool icon="all" title="Select all of them; their values add up" disabled={!found.length} onClick={() => tree.reveal(found)} />
      <Tool icon="close" title="Close (Escape)" onClick={close} />
    </div>
  );
}
