"""``python -m validate signoff``: from records to a report and an exit code."""

from pathlib import Path
from typing import Annotated

import typer

from validate.errors import InputError


def signoff(
    records: Annotated[list[Path], typer.Argument(help="folders of run records, or ones that hold some")],
    image: Annotated[str | None, typer.Option(help="digest of the container image that is to be released")] = None,
    output: Annotated[Path, typer.Option(help="folder that the report's folder goes to")] = Path("runs"),
) -> int:
    """Writes the release report of some records, and says whether a release may be signed, or why not."""
    try:
        from validate.signoff import session
    except ModuleNotFoundError as error:
        raise InputError(f"{error.name} is not installed, which the report needs: pip install -e '.[report]'") from error
    from validate.report.console import console

    return session.run(records, image, output, console())
