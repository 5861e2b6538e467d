// What the first picture of a large trace lacks: how far the analysis is, and the page anew when it is there.
import { make } from "./panels.js";
import { ask } from "./server.js";
import { percent } from "./words.js";

/** Return an element that says how far the analysis is. What the page shows is in its address, so that it is loaded again at the end. */
export function restOf() {
  const bar = make("progress", { max: 1, "aria-label": "Analysis" });
  const words = make("p", { class: "muted", role: "status", "aria-live": "polite" });
  const element = make("div", { class: "rest" }, words, bar);
  let said = "";
  const say = (text) => {
    if (text !== said) words.textContent = said = text;
  };
  async function look() {
    let says;
    try {
      ({ says } = await ask("rest"));
    } catch (error) {
      bar.hidden = true;
      return say(error.message);
    }
    if (!says.is_first) return location.reload();
    if (says.error) {
      bar.hidden = true;
      return say(`Waits, their causes, the critical path and findings could not be computed: ${says.error}`);
    }
    bar.value = says.share;
    // each tenth is read out, not each step
    const stage = says.stage ? ` (${says.stage}, ${percent(Math.floor(says.share * 10) / 10)})` : "";
    say(`Cells and regions are complete. Waits, their causes, the critical path and findings are still being computed${stage}.`);
    setTimeout(look, 1000);
  }
  look();
  return element;
}
