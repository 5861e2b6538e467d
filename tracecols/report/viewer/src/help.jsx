import { Dialog, Meanings } from "./dialog.jsx";
import { MODES } from "./model.js";

const KEYS = [
  ["\u2191 \u2193", "previous, next row"],
  ["\u2192 \u2190", "open, close; to the first below, to the one above"],
  ["Home End", "first, last row"],
  ["Shift + \u2191 \u2193", "select more; their values add up"],
  ["Ctrl + click", "select one more, or one less"],
  ["h", "hot path: open where the largest share lies"],
  ["*", "open everything below the selected row"],
  ["/", "search: rows that match are shown while you type"],
  ["Enter", "in a search: the next match; with Shift the one before"],
  ["Ctrl + C", "copy the tree as a table"],
  ["Esc", "select nothing: all call paths, all locations"],
  ["1 2 3 4", "absolute, relative, own root, values"],
  ["Tab", "next part of the page"],
];

export const Help = ({ close }) => (
  <Dialog label="Help" close={close}>
    <h2>How to read this</h2>
    <p>
      A property says what time was spent on or lost to. Select one on the left: the call tree shows where in the program it happened.
      Select a call path: the system tree shows on which processes and threads.
    </p>
    <p>
      A closed row stands for everything below it. An open row stands for the rest: what is not in the rows below. The rows you see add up
      to the whole.
    </p>
    <Meanings pairs={Object.values(MODES).map(({ title, hint }) => [title, hint])} />
    <h2>Keys</h2>
    <Meanings pairs={KEYS.map(([key, what]) => [<kbd>{key}</kbd>, what])} />
  </Dialog>
);

/** What could not be matched or contradicts itself, with how often. */
export const Notes = ({ notes, close }) => (
  <Dialog label="Notes of the analysis" close={close}>
    <h2>Notes of the analysis</h2>
    <Meanings pairs={notes.map(([what, n]) => [n.toLocaleString("en"), what])} />
  </Dialog>
);
