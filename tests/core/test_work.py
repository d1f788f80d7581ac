"""When a text says that no work is left, and when it only speaks of it."""

import pytest

from gateway.core.work import none_left

STATEMENTS = [
    "All tasks are done.",
    "all tasks done",
    "All the tasks have been completed!",
    "ALL OF THE ISSUES WERE CLOSED",
    "All remaining open issues are now resolved.",
    "All beads closed.",
    "All work items are complete",
    "The build is green. All todos finished.",
    "It was not easy. All tasks are done.",
    "If in doubt, ask.\nAll tasks are done.",
    "✨ No ready work found (all issues have blocking dependencies)",
    "No open issues",
    "No more tasks left.",
    "There are no issues remaining",
    "0 open issues, 12 closed",
    "zero in-progress tasks",
    "0 in_progress issues",
    "所有任务都已完成。",
    "全部的问题已解决",
    "没有未完成的任务了。",
    "还有别的吗？没有任何剩余工作。",
]
OTHERS = [
    "",
    "Next I will write the tests.",
    "Not all tasks are done.",
    "It isn't so that all tasks are done.",
    "I cannot say that all tasks are done.",
    "Once all tasks are done, I will stop.",
    "I go on until all tasks are done",
    "I will say so when all tasks are closed.",
    "Tell me if all tasks are done.",
    "Are all tasks done?",
    "Let me see whether all tasks are done.",
    "I'll make sure that all tasks are completed.",
    "Next: ensure all issues are closed.",
    "All tasks are done except the last one.",
    "All tasks are done, but the build is red.",
    "All tasks other than #3 are done.",
    "All tests are done.",
    "All tasks",
    "10 open issues",
    "如果所有任务都已完成，就停下。",
    "未必所有任务都完成",
    "所有任务都已完成了吗？",
    "所有任务都已完成，除了最后一个。",
]


@pytest.mark.parametrize("text", STATEMENTS)
def test_a_statement(text: str) -> None:
    assert none_left(text)


@pytest.mark.parametrize("text", OTHERS)
def test_no_statement(text: str) -> None:
    assert not none_left(text)


def test_one_statement_among_doubts_is_enough() -> None:
    assert none_left("Are all tasks done? Yes. All tasks are done.")


@pytest.mark.parametrize("word", ["all ", "all the ", "no more ", "0 in ", "所有"])
def test_long_texts_take_no_time(word: str) -> None:
    """Looked at in one go: a text of megabytes must not hold everybody else up."""
    assert not none_left(word * 200_000)
    assert not none_left(word + " " * 1_000_000)
