"""``nimo predict``: one application's curve, or the list of them."""

import argparse
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from predictor.job_table import for_type
from predictor.prediction_table import EMPTY
from sacct_ingest.errors import ConfigError, NoHistory, PlotError, StoreError
from sacct_ingest.records import CURVE_LEVELS, LEARNING, KeyLevel, StandingRow
from sacct_ingest.scripts.signature import names_of
from slurm_plugin.cli import command_context, plot
from slurm_plugin.cli.through_nimod import (
    TIMEOUT_S,
    may_read_store,
    nimod_or_store,
    own_history_is_meant,
)
from slurm_plugin.config.settings import Energy
from slurm_plugin.config.settings_file import leaves_out
from slurm_plugin.nimod import client
from slurm_plugin.protocol.query_messages import Applications
from slurm_plugin.protocol.request_messages import Ask
from slurm_plugin.reports import application_list, curve_screen, curve_text
from slurm_plugin.slurm.slurm_conf import is_own
from slurm_plugin.store_access import last_runs, load_tables, matching_tables, open_store
from slurm_plugin.text.formatting import wrapped
from slurm_plugin.text.streams import json_text
from slurm_plugin.text.terminal_size import terminal_width

if TYPE_CHECKING:
    from predictor.prediction_table import PredictionTable
    from sacct_ingest.store import RunRow
    from slurm_plugin.config.settings import Config
    from slurm_plugin.reports.picture import Picture
    from slurm_plugin.text.table_columns import Table

#: Columns by which one of several applications of a name is chosen.
_TO_CHOOSE = "key,runs,nodes,verdict,details"


def tables() -> "Sequence[Table]":
    """Give what it prints, without rows."""
    nothing = replace(EMPTY, level=KeyLevel.LINE)
    return [
        replace(application_list.list_table([]), caption="without APPLICATION"),
        replace(
            curve_text.curve_table(nothing, Energy(), 0.0, every=True), caption="of APPLICATION"
        ),
    ]


def run(args: argparse.Namespace) -> int:
    """Print one application's curve, or the list of them."""
    if args.application is None and args.plot not in (None, plot.TERMINAL):
        # "--plot wrf-d02": the option took the name for its file.
        args.application = args.plot
        args.plot = plot.TERMINAL
    _check_named(args)
    settings = command_context.user_settings(args)
    answer = _applications(args, settings)
    tables = answer.tables
    standings = {(row.level.value, row.key): row for row in answer.standings}
    if answer.left_off:
        print(f"nimo: {answer.left_off} more are not shown", file=sys.stderr)
    if args.user:
        tables = [t for t in tables if is_own(KeyLevel(t.level), t.key, t.label, args.user)]
    if args.application is None:
        listed = (t for t in tables if not names_of(t.label)[1].startswith(LEARNING))
        _print_list([t for t in listed if args.all or t.level in CURVE_LEVELS], args)
        return 0
    matches = matching_tables(tables, args.application)
    if args.on:
        matches = _on_types(matches, args, settings())
    matches = [curve_text.within(one) for one in matches]
    if args.model:
        matches = _by_model(matches, args.model)
    if args.plot not in (None, plot.TERMINAL):
        if len(matches) > 1:
            keys = ", ".join(f"{table.key} ({table.level})" for table in matches)
            raise PlotError(f"a file holds one curve; choose one by its key: {keys}")
        plot.show(_picture(matches[0], args, settings()), args.plot)
    _print(matches, args, settings, standings)
    return 0


def _applications(args: argparse.Namespace, settings: "Callable[[], Config]") -> Applications:
    """Get the applications of the name, or all; where a name has none, what else there is."""
    answer = nimod_or_store(
        settings,
        lambda: _ask_nimod(args, settings, args.application or "", every=bool(args.all)),
        _stored,
        store_named=bool(args.store),
        local=args.local,
    )
    few = (answer.left_off or not answer.tables) and not (args.store or args.local)
    if few and not own_history_is_meant(settings()) and may_read_store(settings()):
        answer = _stored(settings())  # nimod sends a part of the list only
    elif few and not answer.tables and args.application:
        with suppress(client.Unreachable):  # then no name is proposed
            answer.tables = _ask_nimod(args, settings, "", every=True).tables
    return answer


def _ask_nimod(
    args: argparse.Namespace, settings: "Callable[[], Config]", name: str, *, every: bool
) -> Applications:
    """Ask nimod for the applications of a name; an empty one: for all that the user may see."""
    ask = Ask(op="applications", name=name, every=every)
    socket = command_context.nimod_socket(args, settings)
    return client.exchange(socket, ask, Applications, TIMEOUT_S)


def _check_named(args: argparse.Namespace) -> None:
    """Refuse what needs an application where none is named."""
    if args.application is None and args.plot:
        raise PlotError("which application? 'nimo predict' lists them")
    for option in ("on", "model"):
        value = getattr(args, option)
        if args.application is None and value:
            raise ConfigError(f"--{option} {value}: which application? 'nimo predict' lists them")


def _by_model(tables: "Sequence[PredictionTable]", model: str) -> "list[PredictionTable]":
    """Draw each curve by another model.

    Raises NoHistory: none has observations on enough counts.
    """
    from predictor.models.base import TooFewPoints  # noqa: PLC0415 - scipy takes a second
    from predictor.tables.redrawn import redrawn  # noqa: PLC0415

    made = []
    for one in tables:
        with suppress(TooFewPoints):
            made.append(redrawn(one, model))
    if not made:
        raise NoHistory(f"--model {model}: there are runs on fewer than three counts")
    return made


def _on_types(
    tables: "Sequence[PredictionTable]", args: argparse.Namespace, config: "Config"
) -> "list[PredictionTable]":
    """Give tables of an application for nodes of a type, or of all types that a cluster has.

    Raises NoHistory: no such nodes were measured, or no table is about them.
    """
    known = {name for one in tables for name in _types_of(one)}
    types = [args.on] if args.on in known else _types_of_cluster(args.on, known, config)
    made = [
        replace(for_type(one, node_type), node_type=node_type, by_type=())
        for one in tables
        for node_type in types
        if node_type in _types_of(one)
    ]
    if not made:
        raise NoHistory(
            f"{args.application} has no prediction for nodes of the type {types[0]} yet; "
            "'nimo fit' makes one"
        )
    return made


def _types_of(table: "PredictionTable") -> list[str]:
    """Name the node types that a table has times for; none where its own is not known."""
    return [table.node_type, *(one.node_type for one in table.by_type)] if table.node_type else []


def _types_of_cluster(name: str, known: Collection[str], config: "Config") -> list[str]:
    with open_store(config) as store:
        profiles = store.profiles.latest()
    if types := sorted({one.node_type for one in profiles if one.cluster == name} - {""}):
        return types
    clusters = ", ".join(sorted({one.cluster for one in profiles})) or "none"
    raise NoHistory(
        f"no nodes of a type or a cluster {name!r} were measured; the application's types are "
        f"{', '.join(sorted(known)) or 'not known'}, measured clusters {clusters}; 'nimo lab "
        "profile' measures nodes"
    )


def _stored(config: "Config") -> Applications:
    with open_store(config) as store:
        return Applications(tables=load_tables(store), standings=store.standings.all())


def _print_list(tables: "Sequence[PredictionTable]", args: argparse.Namespace) -> None:
    if args.json:
        print(json_text(tables))
    elif args.all or args.parsable2:
        command_context.print_table(application_list.list_table(tables), args)
    else:
        options = command_context.table_options(args)
        print(curve_screen.list_on_screen(tables, options, width=terminal_width()))


def _print(
    tables: "Sequence[PredictionTable]",
    args: argparse.Namespace,
    settings: "Callable[[], Config]",
    standings: Mapping[tuple[str, str], StandingRow],
) -> None:
    energy = Energy() if leaves_out("energy", args.config) else settings().energy
    if args.json:
        print(json_text(tables))
        return
    if args.parsable2:
        for one in tables:
            table = curve_text.curve_table(one, energy, time.time(), every=True)
            print(table.parsable(command_context.table_options(args)))
        return
    shown = tables if args.all or args.on else application_list.each_once(tables)
    if len(shown) > 1 and not (args.all or args.on or args.plot):
        print(_choice(shown, args))
        return
    for number, one in enumerate(shown):
        text = _text(one, args, energy, standings.get((one.level, one.key)))
        print("\n" * bool(number) + text)
        if args.plot == plot.TERMINAL:
            print()
            plot.show(_picture(one, args, settings()), plot.TERMINAL)


def _text(
    table: "PredictionTable", args: argparse.Namespace, energy: Energy, standing: StandingRow | None
) -> str:
    options = command_context.table_options(args)
    width = terminal_width()
    now_s = time.time()
    if not (args.all or args.verbose):
        return curve_screen.on_screen(
            table, width=width, options=options, energy=energy, now_s=now_s, standing=standing
        )
    text = curve_text.render(
        table,
        every=args.all,
        width=width,
        options=options,
        verbose=args.verbose,
        energy=energy,
        now_s=now_s,
    )
    return f"{text}\n{wrapped(curve_text.standing_line(standing), width)}" if standing else text


def _choice(tables: "Sequence[PredictionTable]", args: argparse.Namespace) -> str:
    """List applications of one name; one of them is chosen by its key."""
    options = command_context.table_options(args)
    if not options.form:
        options = options._replace(form=_TO_CHOOSE)
    text = curve_screen.list_on_screen(tables, options, width=terminal_width())
    return f"{len(tables)} applications have this name; name one by its key, or --all.\n\n{text}"


def _picture(table: "PredictionTable", args: argparse.Namespace, config: "Config") -> "Picture":
    from slurm_plugin.reports.picture import of_table  # noqa: PLC0415 - only for --plot

    runs: Sequence[RunRow] = ()
    with suppress(StoreError):  # nimod's tables are enough for a curve without single runs
        # Runs on other types are none of these nodes.
        if not args.on and (
            args.store or args.local or own_history_is_meant(config) or may_read_store(config)
        ):
            with open_store(config) as store:
                runs = last_runs(store, table)
    return of_table(table, runs, cluster=config.cluster)
