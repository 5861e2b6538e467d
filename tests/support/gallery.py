"""Execute the page of ten questions: ``python tests/support/gallery.py`` rewrites its outputs."""

import ast
import contextlib
import io
import os
import re
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "tracecols" / "docs" / "questions.md"
BLOCK = re.compile(r"```python\n(.*?)```\n(?:\n```text\n(.*?)```\n)?", re.DOTALL)


def blocks(text):
    """Return the code blocks of the page, each with the output below it."""
    return [(m[1], m[2] or "") for m in BLOCK.finditer(text)]


def execute(codes, folder):
    """Execute pieces of code in one namespace, in a folder with a link to our `tests`; return the output of each, with
    its last value."""
    names, outputs = {"__name__": "gallery"}, []
    (Path(folder) / "tests").symlink_to(ROOT / "tests")
    with contextlib.chdir(folder):
        for code in codes:
            tree = ast.parse(code)
            last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
            said = io.StringIO()
            with contextlib.redirect_stdout(said):
                exec(compile(tree, str(PAGE), "exec"), names)
                if last is not None:
                    value = eval(compile(ast.Expression(last.value), str(PAGE), "eval"), names)
                    print(value)
            outputs.append("\n".join(line.rstrip() for line in said.getvalue().rstrip().split("\n")))
    return outputs


def write():
    """Write the outputs into the page."""
    text = PAGE.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        made = iter(execute([code for code, _ in blocks(text)], folder))

    def filled(m):
        output = next(made)
        return f"```python\n{m[1]}```\n" + (f"\n```text\n{output}\n```\n" if output else "")

    PAGE.write_text(BLOCK.sub(filled, text), encoding="utf-8")


if __name__ == "__main__":
    os.environ.setdefault("MPLBACKEND", "Agg")
    write()
