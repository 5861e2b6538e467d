"""Execute the tutorial notebook: ``PYTHONPATH=tests python tests/support/tutorial.py`` rewrites it with its outputs."""

import base64
import tempfile
from pathlib import Path

import nbformat
from conftest import LONG
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).parents[2] / "tracecols" / "docs" / "tutorial.ipynb"
PICTURE = "viewer.png"


def execute(folder):
    """Execute the notebook in a new kernel, in a folder; raise the error of a cell that fails.

    Parameters
    ----------
    folder : Path
        Working folder, in which its files remain.

    Returns
    -------
    NotebookNode
        The notebook without parts that differ between runs.
    """
    notebook = nbformat.read(NOTEBOOK, 4)
    NotebookClient(
        notebook,
        timeout=LONG,
        kernel_name="python3",
        coalesce_streams=True,
        resources={"metadata": {"path": str(folder)}},
    ).execute()
    clean(notebook)
    return notebook


def clean(notebook):
    """Remove times, versions, widgets without their model, and plain text where there is HTML."""
    notebook.metadata = nbformat.from_dict(
        {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        }
    )
    for number, cell in enumerate(notebook.cells):
        cell.id, cell.metadata = f"cell-{number:02}", nbformat.from_dict({})
        for output in cell.get("outputs", []):
            output.get("data", {}).pop("application/vnd.jupyter.widget-view+json", None)
            if {"text/html", "text/markdown", "image/png"} & set(output.get("data", {})):
                output["data"].pop("text/plain", None)
            if "metadata" in output:
                output["metadata"] = nbformat.from_dict({})


def told(notebook):
    """Return the source and the outputs of every code cell; of pictures only their presence."""
    return [
        (cell.source, [_told(output) for output in cell.get("outputs", [])])
        for cell in notebook.cells
        if cell.cell_type == "code"
    ]


def _told(output):
    if "data" not in output:
        return {"type": output.output_type, "name": output.get("name"), "text": output.get("text")}
    return {kind: "a picture" if kind.startswith("image/") else text for kind, text in output.data.items()}


def photograph(folder):
    """Take a screenshot of the report written by the notebook; return PNG bytes, or None without a browser."""
    import pytest

    import tracecols
    from support.browser import Report, chromium, link, small

    cube = tracecols.SeverityCube.load(folder / "hybrid" / "hybrid.severity")
    at = cube.call_paths.path.index("hybrid/main/h_latereceiver/MPI_Ssend")
    try:
        with chromium() as browser:
            fragment = link(cube, [("omp_idle_threads", False)], [(at, False)])
            report = Report(browser, folder / "hybrid" / "hybrid.html", fragment, width=1180, height=560)
            return small(report.page.screenshot())
    except pytest.skip.Exception as reason:
        print(f"the picture of the viewer stays as it is: {reason}")
        return None


def main():
    """Execute the notebook and save it."""
    with tempfile.TemporaryDirectory() as folder:
        notebook = execute(Path(folder))
        picture = photograph(Path(folder))
    if picture is not None:
        (cell,) = (c for c in notebook.cells if f"attachment:{PICTURE}" in c.source)
        cell.attachments = {PICTURE: {"image/png": base64.b64encode(picture).decode()}}
    nbformat.write(notebook, NOTEBOOK)
    print(f"{NOTEBOOK.name}: {NOTEBOOK.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
