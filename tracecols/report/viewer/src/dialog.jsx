import { useEffect, useRef } from "preact/hooks";

/** A dialog above everything: Escape, a click beside it or its button close it, and the focus goes back where it was. */
export function Dialog({ label, close, wide, children }) {
  const dialog = useRef();
  useEffect(() => {
    const before = document.activeElement;
    dialog.current.focus();
    return () => before?.focus?.();
  }, []);
  return (
    <div class="tc-veil" onClick={close}>
      <div
        ref={dialog}
        class={`tc-dialog${wide ? " tc-wide" : ""}`}
        role="dialog"
        aria-label={label}
        tabIndex={-1}
        onClick={(event) => event.stopPropagation()}
        // keys of the page must not act below it
        onKeyDown={(event) => {
          event.stopPropagation();
          if (event.key === "Escape") close();
        }}
      >
        {children}
        <button type="button" class="tc-close" onClick={close}>
          Close
        </button>
      </div>
    </div>
  );
}

/** Pairs of a word, or a key, and what it means. */
export const Meanings = ({ pairs }) => (
  <dl>
    {pairs.map(([word, meaning]) => (
      <div>
        <dt>{word}</dt>
        <dd>{meaning}</dd>
      </div>
    ))}
  </dl>
);
