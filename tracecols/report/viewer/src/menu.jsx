import { useEffect, useRef, useState } from "preact/hooks";
import { Tool } from "./icons.jsx";

/**
 * A button that opens a small menu; a choice, Escape or a click elsewhere close it.
 * @param {{icon: string, title: string, label: string, head?: string, choices: {title: string, hint?: string, disabled?: boolean, act: (button: HTMLElement) => void}[]}} props
 */
export function Menu({ icon, title, label, head, choices }) {
  const [open, setOpen] = useState(false);
  const place = useRef();
  useEffect(() => {
    if (!open) return;
    const outside = (event) => place.current?.contains(event.target) || setOpen(false);
    addEventListener("pointerdown", outside);
    return () => removeEventListener("pointerdown", outside);
  }, [open]);
  const escape = (event) => {
    if (event.key !== "Escape" || !open) return;
    event.stopPropagation();
    setOpen(false);
  };
  return (
    <span class="tc-anchor" ref={place} onKeyDown={escape}>
      <Tool icon={icon} title={title} on={open} onClick={() => setOpen(!open)} />
      {open && (
        <span class="tc-menu" role="menu" aria-label={label}>
          {head && <span class="tc-menu-head">{head}</span>}
          {choices.map(({ title, hint, disabled, act }) => (
            <button
              type="button"
              role="menuitem"
              title={hint}
              disabled={disabled}
              onClick={() => {
                setOpen(false);
                act(place.current);
              }}
            >
              {title}
            </button>
          ))}
        </span>
      )}
    </span>
  );
}
