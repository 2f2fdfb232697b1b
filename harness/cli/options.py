"""Command-line options that are settings, shared by several commands."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from harness import settings as settings_module

Function = Callable[..., Any]
LAB_OPTIONS = ("lab", "lab_file", "dialog_security", "endpoint_encryption", "driver")


def settings_options(*names: str) -> Callable[[Function], Function]:
    """Options whose values go to `settings.create` as they are."""
    known: dict[str, Callable[[Function], Function]] = {
        "lab": click.option(
            "--lab",
            metavar="NAME",
            help=f"Where the instances run: {' or '.join(settings_module.LABS)}. Default: sqlserver where a Docker "
            "engine answers or --lab-file names servers, else embedded.",
        ),
        "lab_file": click.option(
            "--lab-file",
            metavar="FILE",
            type=click.Path(path_type=Path),
            help="lab.toml, which describes your own SQL Servers.",
        ),
        "server_versions": click.option(
            "--server-versions",
            metavar="LIST",
            help="Versions of SQL Server to sweep, separated by spaces (containers: default '2022 2025').",
        ),
        "dialog_security": click.option(
            "--dialog-security/--no-dialog-security",
            default=None,
            help="Encrypt and sign dialogs with certificates (default, as in the paper), or do not.",
        ),
        "endpoint_encryption": click.option(
            "--endpoint-encryption/--no-endpoint-encryption",
            default=None,
            help="Encrypt connections between instances too (default: no, as in the paper).",
        ),
        "driver": click.option("--driver", metavar="NAME", help="ODBC driver: auto (default), microsoft or freetds."),
        "measure": click.option(
            "--measure",
            metavar="TIME",
            help="Length of a cell's measured window: 500ms, 2m ... (default 30s, embedded 1s).",
        ),
        "settle": click.option(
            "--settle",
            metavar="TIME",
            help="Longest wait for a steady rate before it (default 10s, embedded 600ms).",
        ),
        "drain": click.option(
            "--drain", metavar="TIME", help="Longest wait until all messages are processed (default 2m, embedded 1m)."
        ),
        "seed": click.option("--seed", metavar="NUMBER", help="Seed for the order of the cells (default 1)."),
        "results": click.option(
            "--results",
            metavar="DIR",
            type=click.Path(path_type=Path),
            help="Folder in which the run gets its own folder (default results).",
        ),
        "cells": click.option(
            "--cells",
            metavar="PATTERN",
            multiple=True,
            help="Shell pattern on cell ids such as i1-t5-r150-p100-v2022 (i1-t5 means i1-t5-*); "
            "repeat it, or separate several by spaces.",
        ),
        "quick": click.option(
            "--quick", is_flag=True, default=None, help="24 cells that span all axes instead of all 528."
        ),
        "resume": click.option(
            "--resume",
            metavar="DIR",
            type=click.Path(path_type=Path),
            help="Continue the run in this folder, with the same settings.",
        ),
        "hardware": click.option(
            "--hardware", metavar="NAME", help="The model's parameters: paper (default), this-machine or a TOML file."
        ),
        "settings": click.option(
            "--settings",
            "settings_file",
            metavar="FILE",
            type=click.Path(path_type=Path),
            help="TOML file of settings, named like the options, which override it, as HARNESS_... variables do.",
        ),
    }

    def decorate(function: Function) -> Function:
        for name in reversed(names):
            function = known[name](function)
        return function

    return decorate
