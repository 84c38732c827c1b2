#!/usr/bin/env python3
"""Writes ships_log.txt: the invented log of a cargo ship, a text that language_model.py learns.

It was written for this repository and, like this program, is dedicated to the public domain (CC0
1.0). The entries are consistent: the ship sails from port to port, days follow one another, the
draught falls when stores are eaten and rises when cargo is loaded. The same seed gives the same
text on every machine.

    python examples/data/write_log.py > examples/data/ships_log.txt
"""

from __future__ import annotations

import random
from dataclasses import dataclass

BYTES = 100_000
PORTS = (
    "Cardiff Lisbon Cadiz Genoa Naples Smyrna Odessa Alexandria Malta Bristol Leith Bergen Riga "
    "Danzig Antwerp Bordeaux Porto Funchal Dakar Recife"
).split()
CARGOES = (
    "coal salt cork timber wheat wool cotton copper oranges marble iron hides sugar coffee olives"
).split()
MONTHS = (
    ("January", 31),
    ("February", 28),
    ("March", 31),
    ("April", 30),
    ("May", 31),
    ("June", 30),
    ("July", 31),
    ("August", 31),
    ("September", 30),
    ("October", 31),
    ("November", 30),
    ("December", 31),
)
WINDS = "north|north by east|north-east|east|south-east|south|south-west|west|north-west".split("|")
FORCES = (
    ("light airs", "smooth sea", "all sail set"),
    ("a gentle breeze", "a slight sea", "royals and studding sails set"),
    ("a fresh breeze", "a moderate sea", "single reefs in the topsails"),
    ("a strong breeze", "a rough sea", "double reefs in the topsails"),
    ("a gale", "a high sea", "close reefed, hatches battened"),
)
WATCHES = (
    "Pumped ship: {inches} inches in the well.",
    "The carpenter caulked the {side} scuppers.",
    "Spoke the barque {ship}, {days} days out of {port}, all well.",
    "The cook reports {casks} casks of water and {sacks} sacks of flour remaining.",
    "Sighted {sight} bearing {wind}, distant {miles} miles.",
    "A seaman fell from the foreyard and was brought to; he is off duty for {days} days.",
    "The mate mustered the hands and read them the articles.",
    "Shifted {tons} tons of {cargo} aft, to bring her by the stern.",
    "Exercised the boats; the {side} falls want renewing.",
    "Took two altitudes of the sun; the chronometer loses {inches} seconds a day.",
)
SIGHTS = "a light|two sail|a whale and her calf|the high land|a wreck awash|a rain squall"
SHIPS = "Ariadne|Blessed Hope|Calypso|Dorothea|Ellen Rodger|Fidelity|Good Intent|Halcyon|Isabella"


@dataclass
class Voyage:
    """The ship's position and cargo, and the date."""

    dice: random.Random
    year: int = 1876
    month: int = 2
    day: int = 1
    port: str = "Cardiff"
    cargo: str = "coal"
    tons: int = 400
    draught_inches: int = 168

    def date(self) -> str:
        return f"{self.day} {MONTHS[self.month][0]} {self.year}"

    def next_day(self) -> None:
        self.day += 1
        if self.day > MONTHS[self.month][1]:
            self.day, self.month = 1, self.month + 1
        if self.month == len(MONTHS):
            self.month, self.year = 0, self.year + 1

    def draught(self) -> str:
        return f"{self.draught_inches // 12} feet {self.draught_inches % 12} inches"

    def load(self) -> str:
        """A day in port: the old cargo goes out and the new one comes in."""
        old, self.cargo = self.cargo, self.pick([c for c in CARGOES if c != self.cargo])
        self.tons = self.dice.randrange(280, 460, 20)
        self.draught_inches = 120 + self.tons // 8
        mark = (
            "her mark is awash and the master will take no more"
            if self.tons >= 420
            else "her mark stands clear of the water"
        )
        return (
            f"{self.date()}. At {self.port}. Discharged the {old} and took in {self.tons} tons of "
            f"{self.cargo}. She draws {self.draught()}; {mark}.\n"
        )

    def pick(self, choices: list[str]) -> str:
        return choices[self.dice.randrange(len(choices))]

    def remark(self) -> str:
        """One entry of the watch."""
        text = self.pick(list(WATCHES))
        return text.format(
            inches=self.dice.randrange(3, 15),
            side=self.pick(["port", "starboard"]),
            ship=self.pick(SHIPS.split("|")),
            days=self.dice.randrange(3, 40),
            port=self.pick(PORTS),
            casks=self.dice.randrange(4, 30),
            sacks=self.dice.randrange(4, 30),
            sight=self.pick(SIGHTS.split("|")),
            wind=self.pick(WINDS),
            miles=self.dice.randrange(2, 12),
            tons=self.dice.randrange(2, 10),
            cargo=self.cargo,
        )

    def at_sea(self, to: str, force: int) -> str:
        strength, sea, sails = FORCES[force]
        run = 60 + 30 * min(force, 3) + self.dice.randrange(40)
        remarks = " ".join(self.remark() for _ in range(self.dice.randrange(3)))
        return (
            f"{self.date()}. Towards {to}. "
            f"Wind {self.pick(WINDS)}, {strength}, {sea}; {sails}. "
            f"Run {run} miles. {remarks}".rstrip()
            + "\n"
        )

    def passage(self) -> list[str]:
        """A passage from this port to another, with one entry per day."""
        to = self.pick([p for p in PORTS if p != self.port])
        entries = [
            self.load(),
            f"{self.date()}. Unmoored at daylight and stood out of {self.port} for {to}.\n",
        ]
        force = self.dice.randrange(len(FORCES))
        for _ in range(self.dice.randrange(4, 16)):
            self.next_day()
            force = max(0, min(len(FORCES) - 1, force + self.dice.randrange(-1, 2)))
            self.draught_inches -= self.dice.randrange(2)
            entries.append(self.at_sea(to, force))
        self.next_day()
        entries.append(f"{self.date()}. Came to anchor at {to}. She draws {self.draught()}.\n\n")
        self.port = to
        self.next_day()
        return entries


def write(size: int = BYTES, seed: int = 1876) -> str:
    """The log, which ends after the first whole passage beyond `size` bytes."""
    voyage = Voyage(random.Random(seed))
    text = ""
    while len(text) < size:
        text += "".join(voyage.passage())
    return text.rstrip("\n") + "\n"


if __name__ == "__main__":
    print(write(), end="")
