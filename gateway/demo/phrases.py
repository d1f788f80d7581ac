"""What the demo model says, in its two languages."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.demo.speech import is_chinese


@dataclass(frozen=True, slots=True)
class Tongue:
    """The sentences of one language."""

    hello: str
    thanks: str
    answer: str
    tricks: str
    clock_tricks: str
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
    refused: str
    result: str
    also: str
    stop: str
    space: str


ENGLISH = Tongue(
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
    refused="I could not do that: {error}",
    result="The tool {tool} answered: {text}",
    also=" and ",
    stop=".",
    space=" ",
)

CHINESE = Tongue(
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
    refused="没有办到：{error}",
    result="工具 {tool} 返回：{text}",
    also=" 和 ",
    stop="。",
    space="",
)


def tongue_for(text: str) -> Tongue:
    """Choose the language to answer in."""
    return CHINESE if is_chinese(text) else ENGLISH
