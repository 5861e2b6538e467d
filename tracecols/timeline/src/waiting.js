// The page of trees while their range is analysed: how far it is, and how to end it.
import { make } from "./panels.js";
import { percent } from "./words.js";

/** Whether the page is that of trees which are not there yet. */
export const WAITING = location.pathname.endsWith("/trees");

const STAGES = {
  waiting: "Another range is analysed first.",
  cutting: "The range is cut out of the trace.",
  analyzing: "The range is analysed.",
  "finding causes": "Causes of lost time are tried.",
};

/** Let the range be analysed, show how far it is, and load the trees when they are there. The analysis ends with the request for it. */
export async function waitForTrees(root) {
  const stop = new AbortController();
  const bar = make("progress", { max: 1, "aria-label": "Analysis" });
  const words = make("p", { role: "status", "aria-live": "polite" }, "The analysis begins.");
  const end = () => stop.abort();
  const cancel = make("button", { type: "button", class: "plain", onclick: end }, "Cancel (Escape)");
  const again = make("button", { type: "button", class: "plain", hidden: true, onclick: () => location.reload() }, "Analyse it again");
  root.append(make("div", { class: "waiting" }, make("h1", {}, "Trees of a range of time"), words, bar, cancel, again));
  cancel.focus();
  document.addEventListener("keydown", (event) => event.key === "Escape" && end());
  const ended = (text) => {
    words.textContent = text;
    bar.hidden = cancel.hidden = true;
    again.hidden = false;
    again.focus();
  };
  let said = "";
  try {
    const answer = await fetch(`data/trees${location.search}`, { signal: stop.signal, credentials: "omit" });
    if (!answer.ok) return ended((await answer.json()).error);
    let rest = "";
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    for (;;) {
      const { value, done } = await reader.read();
      if (done) break;
      const lines = (rest + value).split("\n");
      rest = lines.pop();
      for (const { stage, share, error, ready } of lines.map((line) => JSON.parse(line))) {
        if (error) return ended(error);
        if (ready) return location.reload();
        bar.value = share;
        // each tenth is read out, not each step
        const text = `${STAGES[stage]} ${stage === "waiting" ? "" : percent(Math.floor(share * 10) / 10)}`;
        if (text !== said) words.textContent = said = text;
      }
    }
    ended("The analysis ended before it was done: was tracecols view ended?");
  } catch (error) {
    ended(error.name === "AbortError" ? "The analysis was cancelled." : "The server does not answer: was tracecols view ended?");
  }
}
