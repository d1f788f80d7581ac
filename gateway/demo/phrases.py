"""What the demo model says, in its two languages."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.demo.tokens import is_chinese


@dataclass(frozen=True, slots=True)
class Phrases:
    """The sentences of one language."""

    hello: str
    thanks: str
    answer: str
    tricks: str
    clock_tricks: str
    task_tricks: str
    no_clock: str
    when: str
    scheduled: str
    hold: str
    next_request: str
    task: str
    due: str
    time: str
    date: str
    listed: str
    item: str
    brought: str
    no_reminders: str
    none_fits: str
    which: str
    cancelled: str
    cleared: str
    planned: str
    first: str
    remind: str
    jobs: str
    job: str
    resting: str
    no_jobs: str
    no_job_fits: str
    no_tool: str
    outcome: str
    # Seven of each: few intervals divide by it, so that the next one is another.
    some_jokes: tuple[str, ...]
    some_words: tuple[str, ...]
    summary: str
    last: str
    refused: str
    result: str
    also: str
    stop: str
    space: str


ENGLISH = Phrases(
    hello=(
        "Hello! I am the demo model that comes with Holdgate: a script, so I need no key and cost "
        "nothing, but this answer really is streamed to you word by word."
    ),
    thanks="You are welcome! I am only the demo model, a script, but a polite one.",
    answer=(
        "You said “{prompt}”. I am the demo model that comes with Holdgate, a script that knows "
        "nothing about the world; for a real answer add an upstream of your own."
    ),
    tricks="A line such as “demo: tokens=50 delay_ms=20” makes me do precisely that.",
    clock_tricks="Try “remind me in 20 seconds to drink tea”, or “what time is it?”.",
    task_tricks="Or “every 10 seconds tell me a joke”, “list my tasks”, and “stop”.",
    no_clock=(
        "I have no clock: this request offers me no tool of that name. Holdgate adds it when its "
        "clock is switched on; then I can tell the time and come back to remind you."
    ),
    when="Tell me when, for example “remind me in 20 seconds to drink tea”.",
    scheduled="I set it: {tasks}.",
    hold="This answer stays open and I go on at {times}.",
    next_request="I will bring it up when you write to me after {times}.",
    task="the reminder you asked for",
    due="It is time: {tasks}",
    time="It is {time} on {date} ({timezone}).",
    date="{0:%A} {0.day} {0:%B} {0.year}",
    listed="Your reminders: {items}.",
    item="{task} at {time}",
    brought="{task} (already brought)",
    no_reminders="You have no reminders.",
    none_fits="I found no reminder about “{words}”.",
    which="Which one do you mean?",
    cancelled="I cancelled it: {task}.",
    cleared="I removed all your reminders ({count}).",
    planned="I will do it {schedule}: {task}.",
    first="The first time is at {time}.",
    remind="Remind the user: {task}",
    jobs="Your tasks: {items}.",
    job="{task}, next at {time}",
    resting="{task}, which rests",
    no_jobs="You have no tasks.",
    no_job_fits="I found no task about “{words}”.",
    no_tool=(
        "I cannot do that again and again: this request offers me no tool schedule_task. Holdgate "
        "gives it to agents that list it, such as the agent “demo” at /api/chat, and to everybody "
        "with cron.offer_to_clients."
    ),
    outcome="Your task “{name}” has a result: {text}",
    some_jokes=(
        "Why did the stream never finish its sentence? It lost its connection.",
        "I told a model to wait a minute. It is still asking which minute.",
        "What does a clock do when it is hungry? It goes back four seconds.",
        "Two tokens walk into a bar. The third is still being sampled.",
        "A cron job walks into a bar, every five minutes.",
        "I have a joke about time-outs, but nobody has waited for its end.",
        "How does a gateway say goodbye? With an empty line.",
    ),
    some_words=("tea", "lantern", "harbour", "patience", "meadow", "echo", "umbrella"),
    summary="Before this you have said {count} things here.{last}",
    last=" The last was: {text}",
    refused="I could not do that: {error}",
    result="The tool {tool} answered: {text}",
    also=" and ",
    stop=".",
    space=" ",
)

CHINESE = Phrases(
    hello=(
        "你好！我是 Holdgate 自带的演示模型。我只是一段脚本，所以不需要密钥，也不花钱；"
        "不过这段回答确实是一个词一个词流式传给你的。"
    ),
    thanks="不客气！我只是演示模型，一段有礼貌的脚本。",
    answer=(
        "你说的是“{prompt}”。我是 Holdgate 自带的演示模型，一段对世界一无所知的脚本；"
        "想得到真正的回答，请配置你自己的上游。"
    ),
    tricks="写一行“demo: tokens=50 delay_ms=20”，我就会照做。",
    clock_tricks="试试“20秒后提醒我喝茶”，或者问我“现在几点？”。",
    task_tricks="也可以说“每10秒讲个笑话”、“列出我的任务”，或者“停止”。",
    no_clock=(
        "我没有时钟：这次请求没有提供名为“clock”的工具。Holdgate 开启时钟功能后会自动加上它，"
        "那时我就能报时，也能到点回来提醒你。"
    ),
    when="请告诉我时间，例如“20秒后提醒我喝茶”。",
    scheduled="好的，记下了：{tasks}。",
    hold="这条回答会保持打开，我在 {times} 继续。",
    next_request="过了 {times}，你下次给我发消息时我会提醒你。",
    task="你要的提醒",
    due="时间到了：{tasks}",
    time="现在是 {date} {time}（{timezone}）。",
    date="{0.year}年{0.month}月{0.day}日",
    listed="你的提醒：{items}。",
    item="{time} {task}",
    brought="{task}（已提醒）",
    no_reminders="你没有提醒。",
    none_fits="没有找到关于“{words}”的提醒。",
    which="你指的是哪一个？",
    cancelled="已取消：{task}。",
    cleared="已清除你的全部提醒（{count} 个）。",
    planned="好的，{schedule}：{task}。",
    first="第一次在 {time}。",
    remind="提醒用户：{task}",
    jobs="你的任务：{items}。",
    job="{task}（下次 {time}）",
    resting="{task}（已停用）",
    no_jobs="你没有任务。",
    no_job_fits="没有找到关于“{words}”的任务。",
    no_tool=(
        "我没法反复去做：这次请求没有提供名为“schedule_task”的工具。Holdgate 会把它交给配置了它的"
        "智能体（例如 /api/chat 上的“demo”）；设置 cron.offer_to_clients 后，所有会话都有。"
    ),
    outcome="你的任务“{name}”有结果了：{text}",
    some_jokes=(
        "为什么流式回答总也说不完？因为它老是断线。",
        "我让模型等一分钟，它问我：哪一分钟？",
        "钟表饿了怎么办？吃点心，一点一点地吃。",
        "两个词元走进茶馆，第三个还在采样。",
        "定时任务走进茶馆，每五分钟一次。",
        "我有一个关于超时的笑话，可惜没有人等到它讲完。",
        "网关怎么说再见？空一行。",
    ),
    some_words=("茶", "灯笼", "港湾", "耐心", "草地", "回声", "雨伞"),
    summary="在这之前你在这里说过 {count} 句话。{last}",
    last="最后一句是：{text}",
    refused="没有办到：{error}",
    result="工具 {tool} 返回：{text}",
    also=" 和 ",
    stop="。",
    space="",
)


def phrases_for(text: str) -> Phrases:
    """Choose the language to answer in."""
    return CHINESE if is_chinese(text) else ENGLISH
