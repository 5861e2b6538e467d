import { useState } from "preact/hooks";
import { Dialog } from "./dialog.jsx";
import { count, percent, periodText } from "./numbers.js";

const HUES = ["#4c78a8", "#e0a03c", "#59a14f", "#b279a2", "#72b7b2", "#9d755d"];

/** The colour of a group of similar phases; what is like no other has none. */
export const groupColour = (group) => (group < 0 ? "transparent" : HUES[group % HUES.length]);

/** Which phases are alike: how many groups, and on a click what stands for each, and which phases are like no other. */
export function Similar({ model }) {
  const [open, setOpen] = useState(false);
  const { periods, header } = model.cube;
  const { groups, outliers, n_outliers: many } = header.similar;
  const show = (k) => {
    setOpen(false);
    model.setScope([k, k]);
  };
  const Phase = ({ k }) => (
    <button type="button" class="tc-notes" title="Let the trees tell of it" onClick={() => show(k)}>
      {periodText(periods, k)}
    </button>
  );
  const more = (share) => `${share < 0 ? "" : "+"}${percent(share)} %`;
  return (
    <>
      <button type="button" class="tc-notes" onClick={() => setOpen(true)}>
        {[groups.length && count(groups.length, "group"), many && count(many, "outlier")].filter(Boolean).join(", ") || "all alike"}
      </button>
      {open && (
        <Dialog label="Similar phases" close={() => setOpen(false)}>
          <h2>Similar phases</h2>
          <p>
            Phases of a group visit the same call paths equally often, send and receive the same number of messages, and take similar times
            on them.
          </p>
          <dl>
            {groups.map(({ representative, n, within, phases }, group) => (
              <div>
                <dt>
                  <i class="tc-group" style={{ background: groupColour(group) }} /> group {group}
                </dt>
                <dd>
                  {count(n, "phase")} like <Phase k={representative} />, within {percent(within)} %: {phases}
                </dd>
              </div>
            ))}
            {outliers.length > 0 && (
              <div>
                <dt>outliers</dt>
                <dd>
                  {outliers.map(([k, share]) => (
                    <span class="tc-outlier">
                      <Phase k={k} /> ({more(share)} of the median){" "}
                    </span>
                  ))}
                  {many > outliers.length && `and ${many - outliers.length} more`}
                </dd>
              </div>
            )}
          </dl>
        </Dialog>
      )}
    </>
  );
}
