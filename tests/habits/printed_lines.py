"""Patterns for the lines of monitors."""

import re

NUMBER = r"\d+\.\d MB"
CHANGE = r"[+-]\d+\.\d MB"
USAGE = {
    "cuda": rf"CPU: {NUMBER} \| GPU Allocated: {NUMBER} \| GPU Reserved: {NUMBER}",
    "cpu": rf"CPU: {NUMBER} \| CPU tensors: {NUMBER}",
}
PLACE = {"cuda": "GPU", "cpu": "CPU tensors"}


def matches(pattern, text):
    assert re.fullmatch(pattern, text), f"{text!r} is not {pattern!r}"


def number(text, before):
    return float(re.search(rf"{re.escape(before)} ?([+-]?\d+\.\d) MB", text)[1])
