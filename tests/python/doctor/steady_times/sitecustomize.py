# SPDX-License-Identifier: Apache-2.0
"""For tests of what doctor edits, not of how long that takes: a machine that
nothing disturbs. With a fix, a step takes half of the time before; where
$STEADY_TEXT is set, twice as long with a fix whose texts lack it."""

import os

from opgraft.doctor import _trial

attempt = _trial.attempt
texts_of = {}


def remembered(script, arguments, texts, *rest):
    outcome = attempt(script, arguments, texts, *rest)
    texts_of[id(outcome)] = outcome, texts  # kept, so that no id comes twice
    return outcome


def compared_ms(before, after, slower, most_s):
    wanted = os.environ.get("STEADY_TEXT", "")
    _, texts = texts_of[id(after)]
    is_faster = any(wanted in text for text in texts.values())
    return 2.0, 1.0 if is_faster else 4.0


_trial.attempt, _trial.compared_ms = remembered, compared_ms
