// The panels beside the canvas: findings, what is selected, instances, the legend. Names are text, never markup.
import { css, ofClass, ofDifference } from "./colours.js";
import { FOLDED } from "./server.js";
import { duration, moment, pathOf, percent, seconds, shortened } from "./words.js";

/** Make an element; children are elements or text. */
export function make(tag, given = {}, ...children) {
  const found = document.createElement(tag);
  for (const [name, value] of Object.entries(given)) {
    if (name.startsWith("on")) found.addEventListener(name.slice(2), value);
    else if (value !== undefined && value !== false) found.setAttribute(name, value === true ? "" : value);
  }
  found.append(...children.filter((c) => c !== null && c !== undefined));
  return found;
}

/** What a page of a folded phase says about it. */
export function folding(view) {
  const { about } = view;
  const { phase, order, n, median } = about.folded;
  const go = (given) => {
    location.search = new URLSearchParams({ ...FOLDED, phase, order, ...given }).toString();
  };
  const field = make("input", { value: phase, "aria-label": "Phase", list: "regions", onchange: (event) => go({ phase: event.target.value }) });
  const regions = make("datalist", { id: "regions" }, ...about.regions.slice(0, 2000).map((name) => make("option", { value: name })));
  const choose = make("select", { "aria-label": "Order of instances", onchange: (event) => go({ order: event.target.value }) });
  for (const [id, text] of [["longest", "the longest first"], ["time", "as they began"]]) choose.append(make("option", { value: id, selected: id === order }, text));
  return make(
    "div",
    {},
    listed(
      ["phase", field, regions],
      ["order", choose],
      ["instances", n.toLocaleString("en")],
      ["median", duration(about, median)],
      ["longest", `${duration(about, about.length)}, ${Number((about.length / Math.max(median, 1)).toPrecision(3))} times the median`],
    ),
    make("p", { class: "muted" }, "Each row is an instance, aligned where it begins; the dashed line is the median length. Enter shows the selected one in the run, r its trees."),
  );
}

export function findings(view) {
  const { about } = view;
  if (!about.findings.length) return make("p", { class: "muted" }, "The diagnosis found nothing that costs time.");
  return make(
    "ol",
    { class: "findings" },
    ...about.findings.map((f, i) =>
      make(
        "li",
        {},
        make(
          "button",
          { type: "button", "data-finding": i, onclick: () => view.goFinding(i), title: f.details.map(([k, v]) => `${k}: ${v}`).join("\n") },
          make("span", { class: "share" }, f.percent),
          make("span", {}, f.title),
        ),
      ),
    ),
  );
}

function listed(...pairs) {
  const found = make("dl", {});
  for (const [name, ...values] of pairs) found.append(make("dt", {}, name), make("dd", {}, ...values));
  return found;
}

export function details(view) {
  const { about, chosen, explained, state } = view;
  if (!chosen) return make("p", { class: "muted" }, about.folded ? "Click on a region or on a hatched wait." : about.is_first ? "Click on a region, or on a cell." : "Select a finding, or click on a hatched wait to see what it waits for.");
  const span = state.to - state.from;
  if (chosen.kind === "slice") {
    const rows = [
      ["region", about.regions[chosen.name] ?? "?"],
      ["on", view.nameOf(chosen.location)],
      ["begins", moment(about, chosen.begin, span)],
      ["ends", moment(about, chosen.end, span)],
      ["takes", duration(about, chosen.end - chosen.begin)],
    ];
    if (chosen.count > 1) rows.splice(1, 0, ["stands for", `${chosen.count} instances, ${duration(about, chosen.busy)} together`]);
    return listed(...rows);
  }
  if (chosen.kind === "cell") {
    const rows = [
      ["on", about.rows[chosen.row].label],
      ["from, to", `${moment(about, chosen.begin, span)}, ${moment(about, chosen.end, span)}`],
      ["spent on", chosen.words],
    ];
    if (chosen.call_path >= 0) rows.push(["most in", `${pathOf(about, chosen.call_path)} ${percent(chosen.share)}`]);
    return listed(...rows);
  }
  const wait = about.waits[chosen.property];
  const found = make("div", {});
  found.append(
    listed(
      ["wait", wait?.title ?? "?"],
      ["on", view.nameOf(chosen.location)],
      ["in", pathOf(about, chosen.call_path)],
      ["from, to", `${moment(about, chosen.begin, span)}, ${moment(about, chosen.end, span)}`],
      ["lasts", duration(about, chosen.end - chosen.begin)],
    ),
  );
  const cause = explained?.cause;
  if (about.folded) found.append(make("p", { class: "muted" }, "Enter shows this instance of the phase in the run, where the cause of the wait can be selected."));
  if (!cause) return found;
  if (cause.location === undefined) {
    found.append(make("p", { class: "muted" }, "The recording does not say who causes it."));
    return found;
  }
  const pairs = [
    ["waits for", view.nameOf(cause.location)],
    ["which comes in", chosen.cause_call_path >= 0 ? pathOf(about, chosen.cause_call_path) : "not known"],
    ["interval", `${moment(about, cause.since, span)}, ${duration(about, cause.until - cause.since)} long`],
  ];
  if (cause.spent?.length) {
    const list = make("ul", { class: "spent" });
    for (const [region, ticks] of cause.spent.filter(([, t]) => t >= cause.spent[0][1] / 100)) list.append(make("li", {}, make("b", {}, duration(about, ticks)), ` ${about.regions[region] ?? "?"}`));
    pairs.push(["more than who waits it spent", list]);
  }
  if (cause.waited) pairs.push(["it waited itself", duration(about, cause.waited)]);
  found.append(listed(...pairs));
  if (!cause.spent) found.append(make("p", { class: "muted" }, "The interval has too many events to say what the time was spent on."));
  if (cause.next || cause.slice)
    found.append(
      make("p", {}, make("button", { type: "button", class: "plain", onclick: () => view.follow() }, cause.next ? "Go to the wait that goes before (Enter)" : `Go to ${shortened(about.regions[cause.slice[3]])} (Enter)`)),
    );
  if (wait?.advice) found.append(make("p", { class: "muted" }, wait.advice));
  return found;
}

export function instances(view) {
  const { about } = view;
  const choices = about.waits.map((w, i) => [w, i]).filter(([, i]) => about.n_worst[i]);
  if (!choices.length) return make("p", { class: "muted" }, about.is_first ? "Waits are not known yet." : "There are no waits in this trace.");
  const select = make("select", { "aria-label": "Wait state", onchange: (e) => view.list(Number(e.target.value)) });
  select.append(make("option", { value: -1, disabled: true, selected: view.instanceOf < 0 }, "choose a wait state"));
  for (const [w, i] of choices) select.append(make("option", { value: i, selected: i === view.instanceOf }, `${w.title} (${about.n_worst[i]})`));
  const list = make("ol", { class: "instances" });
  (view.instances ?? []).slice(0, 50).forEach((w, k) =>
    list.append(
      make(
        "li",
        {},
        make(
          "button",
          {
            type: "button",
            "aria-current": k === view.at ? "true" : undefined,
            onclick: () => {
              view.at = k;
              view.chooseWait(w);
            },
          },
          make("span", { class: "share" }, duration(about, w.end - w.begin)),
          make("span", {}, view.nameOf(w.location)),
        ),
      ),
    ),
  );
  return make("div", {}, select, view.instances ? list : null);
}

/** How two runs are aligned, and what the difference is of; `align` and `subtract` are called with what is chosen. */
export function aligning(pair, align, subtract) {
  const { by, of, k } = pair.asked;
  const n = by === pair.found.way ? pair.found.n : undefined;
  const options = (select, choices, chosen) => {
    for (const [id, text] of choices) select.append(make("option", { value: id, selected: id === chosen }, text));
    return select;
  };
  const ways = [["focus", "the beginning of the focus"], ["start", "the first event"], ["phase", "an instance of a phase"]];
  const way = options(make("select", { "aria-label": "Align the runs at", onchange: (event) => align({ by: event.target.value, of, k: 0 }) }), ways, by);
  const phase = make("input", { value: of, "aria-label": "Phase or region", size: 14, list: "regions", onchange: (event) => align({ by: "phase", of: event.target.value, k: 0 }) });
  const regions = make("datalist", { id: "regions" }, ...pair.abouts[0].regions.slice(0, 2000).map((name) => make("option", { value: name })));
  const last = n ? Math.min(...n) - 1 : 0;
  const which = make("input", { type: "number", min: 0, max: last, value: k, "aria-label": "Number of the instance", onchange: (event) => align({ by, of, k: Math.trunc(Number(event.target.value)) || 0 }) });
  const part = make("select", { "aria-label": "Difference, B minus A", onchange: (event) => subtract(event.target.value) });
  options(part, [["", "is not shown"], ...pair.parts], pair.part);
  return make(
    "span",
    { class: "aligning" },
    make("label", {}, "align at ", way),
    ...(by === "phase" ? [phase, regions, make("label", {}, "number ", which), n ? make("span", { class: "muted" }, `A has ${n[0]}, B ${n[1]}`) : null] : []),
    make("label", {}, "B minus A ", part),
  );
}

/** What the colours of a difference say. */
export function legendOfDifference({ difference }) {
  const { largest } = difference.cells;
  const list = make("ul", { class: "legend difference" });
  for (const [by, text] of [[1, `B more, up to +${(100 * largest).toFixed(1)} points`], [-1, "A more"], [0, "equal"], [NaN, "nothing to compare"]]) {
    const mark = make("i", {});
    mark.style.setProperty("background", css(ofDifference(by)));
    list.append(make("li", {}, mark, text));
  }
  return list;
}

export function legend(view) {
  const shares = view.sharesOf(0);
  const list = make("ul", { class: "legend" });
  view.about.classes.forEach((id, c) => {
    const mark = make("i", {});
    mark.style.setProperty("background", css(ofClass(id)));
    list.append(make("li", {}, mark, `${view.about.titles[c]}${shares ? ` ${percent(shares[c])}` : ""}`));
  });
  return list;
}

export function severities(view) {
  const select = make("select", { "aria-label": "What rows show", onchange: (e) => view.setSeverity(e.target.value) });
  select.append(make("option", { value: "" }, "what time is spent on"));
  for (const [id, p] of Object.entries(view.about.severities)) select.append(make("option", { value: id, selected: id === view.state.severity }, p.title));
  return select;
}

/** The options that choose a range of time for other commands. */
export function asOptions(view) {
  const [from, to] = (view.range ?? view.withinRun).map((ticks) => seconds(view.about, ticks));
  // what is before the start of the recording cannot be named: without --from it is included
  return `${from < 0 ? "" : `--from ${from} `}--to ${to}`;
}
