import { RunProfile } from "./profile.jsx";

/** The efficiencies: a row of titles, then factors; the lowest is marked. */
function Efficiencies({ rows, lines }) {
  if (!rows.length && !lines.length) return null;
  const [titles, ...more] = rows;
  return (
    <div class="tc-efficiencies">
      {rows.length > 0 && (
        <table>
          <thead>
            <tr>
              <th />
              {titles.cells.map((title) => (
                <th scope="col">{title.text}</th>
              ))}
            </tr>
          </thead>
          <tbody>
            {more.map(({ title, cells }) => (
              <tr>
                <th scope="row">{title}</th>
                {cells.map(({ text, lowest }) => (
                  <td class={lowest ? "tc-lowest" : undefined} title={lowest ? "the lowest factor" : undefined}>
                    {text}
                    {lowest && <small> lowest</small>}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {lines.map((line) => (
        <p class="tc-muted">{line}</p>
      ))}
    </div>
  );
}

/** Findings of which is shown where they lie and who causes them or pays; of the others only the gain and what to do. */
const IN_FULL = 2;

/** What a finding shows without being asked; the rest is its tooltip. */
function brief(details, number) {
  const who = details.some(([word]) => word === "cause") ? "cause" : "pays";
  const words = number < IN_FULL ? ["gain", "where", who, "advice"] : ["advice"];
  return details.filter(([word]) => words.includes(word));
}

/** The diagnosis: what was run, its efficiencies, and the findings that cost most; a finding selects what it is about. */
export function Overview({ model }) {
  const { overview } = model.cube.header;
  const [head, ...more] = overview.heading;
  return (
    <section class="tc-overview" aria-label="Overview" data-pane="overview">
      <div class="tc-run">
        <h2>{head}</h2>
        {more.map((line) => (
          <p class="tc-muted">{line}</p>
        ))}
        <Efficiencies rows={overview.efficiencies} lines={overview.efficiency_lines} />
        {model.cube.header.profile && <RunProfile model={model} />}
      </div>
      <div class="tc-findings">
        <h2>{overview.title}</h2>
        <ol>
          {overview.findings.map((f, number) => (
            <li>
              <button
                type="button"
                class="tc-finding"
                title={f.details.map(([word, text]) => `${word}: ${text}`).join("\n")}
                onClick={() => model.follow(f.property, f.call_path)}
              >
                <span class="tc-number">{f.percent}</span>
                <span class="tc-bar">
                  <i style={{ width: `${Math.max(2, (100 * f.share) / overview.findings[0].share)}%`, background: "var(--tc-accent)" }} />
                </span>
                <span class="tc-finding-text">
                  <b>{f.title}</b> <small>{f.seconds}</small>
                  {brief(f.details, number).map(([word, text]) => (
                    <span class="tc-detail">
                      <i>{word}</i> {text}
                    </span>
                  ))}
                </span>
              </button>
            </li>
          ))}
        </ol>
      </div>
    </section>
  );
}
