"""Manual pages in the wheel, made of the commands' own help: `man harness-matrix` where share/man is on the path."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ManPages(BuildHookInterface[Any]):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        sys.path.insert(0, self.root)
        import click
        from click_man.core import write_man_pages
        from harness.cli import EXIT_CODES, harness

        context = click.Context(harness)
        # click-man knows no commands that are imported when they are called.
        harness.commands = {name: harness.get_command(context, name) for name in harness.list_commands(context)}
        self._folder = tempfile.TemporaryDirectory()
        write_man_pages("harness", harness, version=self.metadata.version, target_dir=self._folder.name)
        for page in Path(self._folder.name).iterdir():  # click-man leaves out what follows the options
            with page.open("a", encoding="utf-8") as file:
                file.write(".SH EXIT STATUS\n" + EXIT_CODES.partition("Exit codes:\n")[2])
        build_data["shared_data"][self._folder.name] = "share/man/man1"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if version != "editable":
            self._folder.cleanup()
