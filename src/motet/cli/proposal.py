"""What ``motet init --from`` prints: the pilot and its inputs, the scores of the study, and what to do next."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

from motet.cli.command import in_options
from motet.cli.terminal import show, show_table
from motet.text import count

if TYPE_CHECKING:
    from motet.planning.evaluation import Evaluation
    from motet.planning.gains import Together
    from motet.planning.pilot import Pilot, PilotClients
    from motet.study.study import Study
    from motet.tables.items import Items

FEW_OTHERS = 30  # clients beside the pilot
NOTHING = "–"  # where there is nothing to compare
GAINS = (
    "Gain: the share of the output's variance, by ranks, that an input tells at held-out rows: alone, of new clients; "
    "and of what a known client's mean leaves."
)


def errors_of(evaluation: Evaluation) -> dict[str, float]:
    return {group.kind: group.score.error for group in evaluation.groups}


def show_cost(evaluation: Evaluation, whole: Evaluation | None, drawn: PilotClients | None) -> None:
    """What is lost by settings of a pilot."""
    if drawn is None:
        show("The settings were found on all rows, these too; what was predicted from other rows is what is scored.")
    if whole is not None:
        theirs = " and ".join(f"{error:.4g} ({kind})" for kind, error in errors_of(whole).items())
        ours = " and ".join(f"{error:.4g}" for error in errors_of(evaluation).values())
        show(f"What the pilot costs: with settings of the whole table the errors would be {theirs} instead of {ours}.")


def pilot_facts(pilot: Pilot) -> dict[str, Any]:
    """What the settings come from, for JSON."""
    others = 0 if pilot.drawn is None else pilot.drawn.others
    rows = {"file": pilot.file, "rows": len(pilot.y), "clients": len(pilot.sizes)}
    gains: dict[str, Any] = {}
    if pilot.together is not None:
        gains = {"gains": [gain.to_dict() for gain in pilot.gains], "together": asdict(pilot.together)}
    return {**rows, "other_clients": others, **gains, "notes": [in_options(note) for note in _notes(pilot)]}


def show_pilot(pilot: Pilot) -> None:
    clients, sizes = count(len(pilot.sizes), "client"), sorted(pilot.sizes.tolist())
    few, most, drawn = sizes[0], sizes[-1], pilot.drawn
    if drawn is None:
        show(f"{pilot.file}: {count(len(pilot.y), 'row')} of {clients}, {few} to {most} each.")
    else:
        chosen = f"{count(len(drawn.names), 'client')} of {len(drawn.names) + drawn.others}, chosen at random"
        show(f"{pilot.file}: the pilot is {chosen}; {count(len(pilot.y), 'row')}, {few} to {most} each.")
        show(_about_pilot(drawn))
    if pilot.columns is not None:
        kinds = [f"{c.name} ({'category' if c.values else 'date' if c.since else 'number'})" for c in pilot.columns]
        show(f"Inputs: {', '.join(kinds)}. Output: {pilot.roles.target}.")
    elif pilot.catalogue is not None:
        features = len(pilot.catalogue.features)
        show(f"Inputs: {count(len(pilot.catalogue), 'item')} with {count(features, 'feature')}.")
    if pilot.together is not None:
        _show_gains(pilot, pilot.together)
    for note in _notes(pilot):
        show(f"Note: {note}{'' if note.endswith('?') else '.'}")


def _show_gains(pilot: Pilot, all_inputs: Together) -> None:
    shares = [(gain.input, gain.alone, gain.beside) for gain in pilot.gains]
    shares += [("all together", all_inputs.share, None)] * (len(pilot.roles.inputs) > 1)
    rows = [(name, *(NOTHING if one is None else f"{100 * one:.0f} %" for one in gains)) for name, *gains in shares]
    show_table(dict.fromkeys(("gain of", "alone", "beside client's mean"), ""), rows)
    show(GAINS)


def _notes(pilot: Pilot) -> list[str]:
    """Of the pilot, of inputs that give the output away, and of what settings are searched on, if not on all rows."""
    target, several = pilot.roles.target, pilot.together
    questions = [gain.question(target) for gain in pilot.gains] + [several.question(target) if several else ""]
    sampled = f"settings are searched on {pilot.sample.about}, at random" if pilot.sample.about else ""
    return [*pilot.notes, *filter(None, [*questions, sampled])]


def _about_pilot(drawn: PilotClients) -> str:
    """What being of the pilot means."""
    from motet.planning.sections import JOINS

    if drawn.joins:
        return f"The settings are those of the pilot, {JOINS}"
    if not drawn.others:
        return (
            "The settings are theirs, and everybody may read them. That is all clients of the table, so nobody is left "
            "to take part: others may send their rows; or --pilot-joins lets the pilot take part."
        )
    advice = f" {count(drawn.others, 'client')} are few: --pilot-joins lets the pilot take part too, outside of ε."
    few = advice if drawn.others < FEW_OTHERS else ""
    return f"The settings are theirs, and everybody may read them; only the others take part, under ε.{few}"


def show_advice(evaluation: Evaluation, study: Study) -> None:
    """What to do if its error is larger than that of what people do without it."""
    groups = evaluation.groups
    if not any(other.error < group.score.error for group in groups for other in group.baseline_scores.values()):
        return
    if study.private:
        show(
            "Each baseline has all rows without noise. More clients, a larger --epsilon, or --policy exact among "
            f"parties who trust each other may help; motet check {quote(str(study.path))} forecasts by how much."
        )
    if study.model.catalogue is not None and not study.model.catalogue.features:
        show("The items only have names: features of the items (--catalogue) let ratings of one tell about others.")


# --- what was written ---


def about(file: Path, study: Study) -> dict[str, Any]:
    return {"study": str(file), "name": study.name, "policy": study.release.policy}


def show_items(file: Path, items: Items | None) -> None:
    """Where a catalogue is that was written."""
    from motet.tables.items import items_file

    if (written := items_file(items, file)) is not None:
        show(f"{written}: written, the items with the numbers that the study reads.")


def show_written(file: Path, study: Study, items: Items | None) -> None:
    for note in () if items is None else items.notes:
        show(f"Note: {note}.")
    show_items(file, items)
    catalogue = study.model.catalogue
    over = f"inputs of {count(study.dimension, 'number')}" if catalogue is None else count(len(catalogue), "item")
    show(f"{file}: a study over {over}, with {'private releases' if study.private else 'releases without noise'}.")
    show("Its settings are guesses: a table finds them (--from TABLE), motet check tells what to expect.")
    show_next(file, study)


def show_next(
    file: Path,
    study: Study,
    data: Path | None = None,
    drawn: PilotClients | None = None,
    encoding: str | None = None,
) -> None:
    served = f"motet serve {quote(str(file))}"
    by_example, by_release = ("inputs, limits and budget", "the model") if study.private else ("inputs", "the policy")
    show(f"Review it: the first example fixes {by_example}, the first release {by_release}.")
    show(f"Then: {served}")
    if data is not None and (drawn is None or drawn.joins or drawn.others):
        rows = "the table" if drawn is None or drawn.joins else f"the other {drawn.others} clients"
        how = f" --encoding {encoding}" if encoding else ""
        show(f"Or, with the rows of {rows} in it: {served} --data {quote(str(data))}{how}")
