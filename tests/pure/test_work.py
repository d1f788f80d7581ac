"""When a text says that no work is left, and when it only speaks of it."""

import time

import pytest

from gateway.sessions.remaining_work import states_completion

STATEMENTS = [
    "All tasks are done.",
    "all tasks done",
    "All the tasks have been completed!",
    "ALL OF THE ISSUES ARE CLOSED",
    "All remaining open issues are now resolved.",
    "All 12 tasks are complete.",
    "All beads closed.",
    "All work items are complete",
    "All todos are finished now.",
    "Yes, all tasks are done.",
    "The build is green. All todos finished.",
    "I fixed the failing test and a bug. All tests are passing. All tasks are done.",
    "It was not easy. All tasks are done.",
    "If in doubt, ask.\nAll tasks are done.",
    "**All tasks are done.**",
    'I wrote "a". All tasks are done.',
    "**All tasks are done**.",
    "_All tasks are done._",
    "✅ All tasks are done!",
    "I closed the last one.\n\nAll tasks are done. Bye.",
    "## Summary\n\n- wrote the parser\n- wrote its tests\n\nAll tasks are done.",
    "```\nnext: nothing will remain\n```\nAll tasks are done.",
    "~~~\n```\nstill open\n~~~\nAll tasks are done.",
    "All tasks are done. Let me know if you need anything else.",
    "All tasks are done. If you want more, just tell me.",
    "All tasks are done. Is there anything else?",
    "Are all tasks done? Yes. All tasks are done.",
    "✨ No open issues",
    "There are no open issues.",
    "No more tasks left.",
    "There are no issues remaining",
    "No tasks remain.",
    "0 open issues, 12 closed",
    "There are zero pending tasks.",
    "所有任务都已完成。",
    "所有任务都完成了！",
    "所有任务已经全部完成。",
    "任务已全部完成。",
    "任务都做完了。",
    "好的，所有任务都已完成。",
    "全部的问题已解决",
    "没有未完成的任务了。",
    "**所有任务都已完成。**",
    "我修好了最后一个。所有任务都已完成。如果您有别的想法，请告诉我。",
]
OTHERS = [
    "",
    "Next I will write the tests.",
    # almost, and not all
    "Almost all tasks are completed; two remain.",
    "Nearly all tasks are done.",
    "Most tasks are done.",
    "All but two tasks are done.",
    "All tasks are mostly done.",
    "All tasks other than #3 are done.",
    "All tasks are done except the last one.",
    "All tasks are done, but the build is red.",
    "All tasks are 90% done.",
    "All tasks of phase one are done.",
    "All subtasks of the first task are done.",
    "All tests are done.",
    "Everything is fine.",
    "All tasks",
    # denied
    "Not all tasks are done.",
    "Not all the tasks have been completed yet.",
    "It isn't so that all tasks are done.",
    "It is not true that\nall tasks are done.",
    "I cannot say that all tasks are done.",
    "I don't think all tasks are done.",
    "All tasks are not done.",
    "All tasks are done. Not really.",
    # under a condition, in the future, in the past
    "Once all tasks are done, I will stop.",
    "I go on until all tasks are done",
    "I will say so when all tasks are closed.",
    "If all tasks are done, the session ends.",
    "As soon as all tasks are done I stop.",
    "All tasks will be done soon.",
    "All tasks should be done by now.",
    "All tasks must be closed.",
    "All tasks were done before the change.",
    "I'll make sure that all tasks are completed.",
    "Next: ensure all issues are closed.",
    "After this, all tasks are done.",
    "Assuming that, all tasks are done.",
    # asked, quoted, named
    "Are all tasks done?",
    "All tasks are done?",
    "Tell me if all tasks are done.",
    "Let me see whether all tasks are done.",
    'He wrote "All tasks are done." and left.',
    '"All tasks are done."',
    'Say "Great! All tasks are done. Bye!" and leave.',
    "It prints `Great! All tasks are done. Bye!` and ends.",
    "他说“好！所有任务都已完成。再见！”",
    "For example this. All tasks are done.",
    "The log line `All tasks are done.` comes first.",
    "> All tasks are done.",
    "```\nAll tasks are done.\n```",
    "The goal:\n\nAll tasks are done.",
    "# All tasks are done",
    "- All tasks are done.",
    "1. All tasks are done.",
    "- [ ] All tasks are done.",
    "| state | All tasks are done. |",
    "[All tasks are done.](#done)",
    # more work in the same answer
    "All tasks are done. Next I will write the tests.",
    "All tasks are done. Two remain.",
    "All tasks are done.\n\n- [ ] the docs are still missing",
    "All tasks are done. Now I start with phase two.",
    "All tasks are done. Shall I go on with the docs?",
    "All tasks are done. Do you want me to write the docs?",
    "All tasks are done. However, one test is failing.",
    "All tasks are done. Two tests fail.",
    "The build failed. All tasks are done.",
    "All tasks are done. The build is broken.",
    "All tasks are done. One issue is open.",
    "All tasks are done. Please run the migration.",
    "All tasks are done. I'm writing the docs.",
    "All tasks are done. Working on the docs.",
    "All tasks are done. Or so I thought.",
    "所有任务都已完成。正在写文档。",
    "The docs still need work. All tasks are done.",
    "No ready work found (all issues have blocking dependencies)",
    "10 open issues",
    "No open issues in this file, three in the other.",
    # in Chinese
    "并非所有任务都已完成。",
    "所有任务完成后我会汇报。",
    "所有任务都已完成后，我会停下。",
    "如果所有任务都已完成，就停下。",
    "等所有任务都完成了再说。",
    "未必所有任务都完成",
    "不是所有任务都已完成。",
    "几乎所有任务都已完成。",
    "所有任务即将完成。",
    "所有任务都已完成了吗？",
    "所有任务都已完成，除了最后一个。",
    "所有任务都已完成，但是测试没有通过。",
    "所有任务都已完成。接下来写文档。",
    "还有两个任务。所有任务都已完成。",
    "“所有任务都已完成。”",
    "- 所有任务都已完成。",
    "目标：\n所有任务都已完成。",
    "请确保所有任务都已完成。",
    "没有未完成的任务是不可能的。",
]


@pytest.mark.parametrize("text", STATEMENTS)
def test_a_statement(text: str) -> None:
    assert states_completion(text)


@pytest.mark.parametrize("text", OTHERS)
def test_no_statement(text: str) -> None:
    assert not states_completion(text)


HOSTILE = [
    "all ", "all the ", "no more ", "0 in ", "所有", "``` ", "```\n", "\n", "a\n", "- \n", ".", "? ",
    "if you ", "如", "*", " ", "All tasks are done. ", "there are no open ", "1",
]  # fmt: skip


@pytest.mark.parametrize("word", HOSTILE)
def test_long_texts_take_no_time(word: str) -> None:
    """Looked at in one go: a text of megabytes must not hold everybody else up."""
    started = time.process_time()
    states_completion(word * 200_000)
    states_completion(word + " " * 1_000_000)
    assert time.process_time() - started < 1
