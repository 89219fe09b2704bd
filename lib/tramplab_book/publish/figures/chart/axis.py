"""A number axis whose geometry is known here, so that labels can be placed beside what they name."""

from __future__ import annotations

import math
from dataclasses import dataclass

import altair as alt
import pandas as pd

from .text import number, width
from .theme import CHARACTER

#: Ticks of a decade, where an axis is only a part of one.
FINE = (1, 1.2, 1.4, 1.6, 1.8, 2, 2.5, 3, 4, 5, 6, 7, 8, 9)
#: Labels of an axis: the number itself; its own format may round.
PLAIN = "format(datum.value, '.12~r')"


@dataclass(frozen=True)
class Axis:
    """A scale from the smallest number to the largest; its length is 1."""

    low: float
    high: float
    log: bool

    @classmethod
    def of(cls, values: pd.Series, log: bool, zero: bool = False, room: float = 0) -> Axis:
        """The axis of these numbers, and of 0 where wanted; above them, part of its length stays free."""
        low, high = float(values.min()), float(values.max())
        if zero and not log:
            low, high = min(low, 0.0), max(high, 0.0)
        if low == high:
            low, high = (low / 2, high * 2) if log else (low, high + 1)
        axis = cls(low, high, log)
        return cls(axis.value(-room) if log else low, axis.value(1 + room), log)

    def place(self, value: float) -> float:
        """The place of a number on the axis, from 0 to 1."""
        if self.log:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    def value(self, place: float) -> float:
        """The number at a place: the inverse of place()."""
        if self.log:
            return self.low * (self.high / self.low) ** place
        return self.low + (self.high - self.low) * place

    def ticks(self) -> list[float] | alt.UndefinedType:
        """Round numbers for a logarithmic axis; a linear one finds its own."""
        if not self.log:
            return alt.Undefined
        powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        for steps in (FINE, (1, 2, 5), (1,)):
            found = [round(step * 10.0**power, 12) for power in powers for step in steps]
            found = [tick for tick in found if self.low <= tick <= self.high]
            if len(found) <= 7:
                break
        return found if len(found) > 1 else alt.Undefined

    def apart(self, numbers: list[float], pixels: int) -> list[float]:
        """The sorted numbers whose labels do not touch on an axis of so many pixels; the first and the last are always among
        them."""
        half = {n: (width(number(n)) + CHARACTER) / 2 for n in numbers}
        left = {n: self.place(n) * pixels - half[n] for n in numbers}
        right = {n: self.place(n) * pixels + half[n] for n in numbers}
        kept = numbers[:1]
        for n in numbers[1:-1]:
            if right[kept[-1]] <= left[n] and right[n] <= left[numbers[-1]]:
                kept.append(n)
        return [*kept, *numbers[1:][-1:]]

    def scale(self, padding: int = 0) -> alt.Scale:
        """The scale for a spec, lengthened by so many pixels at both ends."""
        kind = {"type": "log"} if self.log else {"type": "linear", "zero": False}
        return alt.Scale(**kind, domain=[self.low, self.high], nice=False, padding=padding)
