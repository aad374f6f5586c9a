"""How much a request may ask for, and how much may wait. Knows no HTTP."""

from dataclasses import dataclass

SPLIT = "split the sentence"  # what a client can do about one that is too long


@dataclass(frozen=True)
class Limits:
    """What the server bounds, so that no request can take all of its memory or time."""

    body: int = 2 << 20
    """bytes of a request: more than `characters` need, however they are escaped"""
    body_seconds: float = 30.0
    """how long a client may take to send a request"""
    lines: int = 1000
    """lines of one request"""
    characters: int = 100_000
    """characters of one request"""
    unspaced: int = 500
    """characters without a space between them, for runs of words: the tokeniser's time grows with their square"""
    alternatives: int = 10
    """further translations of each line"""
    inspected: int = 200
    """tokens of a sentence that is looked into, whose answer grows with their square"""
    waiting: int = 5000
    """lines that wait to be translated, of all requests; an inspection counts as one"""
    window_seconds: float = 0.005
    """how long an idle server waits for further requests before it translates the first one"""
