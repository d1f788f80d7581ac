"""What the demo model says, in its two languages."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tongue:
    """The sentences of one language."""

    hello: str
    thanks: str
    answer: str
    tricks: str
    clock_tricks: str
    no_clock: str
    scheduled: str
    hold: str
    next_request: str
    time: str
    refused: str
    result: str
    reminder: str
    task: str
    space: str


ENGLISH = Tongue(
    hello=(
        "Hello! I am the demo model that comes with Holdgate. I am a script, not a neural network, "
        "so I need no key and cost nothing, but this answer really is streamed to you word by word."
    ),
    thanks="You are welcome! I am only the demo model, a script, but a polite one.",
    answer=(
        "You said “{prompt}”. I am the demo model that comes with Holdgate: a script that streams "
        "like a real model but knows nothing about the world, so for a real answer add an upstream "
        "of your own."
    ),
    tricks=(
        "To see precisely what you want, put a line such as “demo: tokens=50 delay_ms=20” into "
        "your message."
    ),
    clock_tricks="You can also try “remind me in 20 seconds to stretch” or “what time is it?”.",
    no_clock=(
        "I would need the tool “clock” for that, and this request offers none. Holdgate adds it to "
        "requests when its clock is switched on; then I can tell the time and come back to remind "
        "you."
    ),
    scheduled="Done: at {time} I will remind you: {task}.",
    hold="Stay connected and I will come back in this same answer.",
    next_request="I will bring it up when you write to me after that.",
    time="It is {local} ({timezone}).",
    refused="The clock did not do that: {error}",
    result="The tool {tool} answered: {text}",
    reminder="Here is your reminder: {tasks}.",
    task="what you asked me to remind you of",
    space=" ",
)

CHINESE = Tongue(
    hello=(
        "你好！我是 Holdgate 自带的演示模型。我只是一段脚本，不是神经网络，"
        "所以不需要密钥，也不花钱；不过这段回答确实是一个词一个词流式传给你的。"
    ),
    thanks="不客气！我只是演示模型，一段有礼貌的脚本。",
    answer=(
        "你说的是“{prompt}”。我是 Holdgate 自带的演示模型：像真正的模型一样流式输出，"
        "但对世界一无所知。想得到真正的回答，请配置你自己的上游。"
    ),
    tricks="想精确控制我的输出，可以在消息里写一行，例如“demo: tokens=50 delay_ms=20”。",
    clock_tricks="你也可以试试“20秒后提醒我喝水”，或者问我“现在几点？”。",
    no_clock=(
        "这需要名为“clock”的工具，而这次请求没有提供。Holdgate 开启时钟功能后会自动加上它，"
        "那时我就能报时，也能到点回来提醒你。"
    ),
    scheduled="好的，我会在 {time} 提醒你：{task}。",
    hold="请保持连接，到时我会在这条回答里继续。",
    next_request="到时间之后，你下次给我发消息时我会提醒你。",
    time="现在是 {local}（{timezone}）。",
    refused="时钟没有接受：{error}",
    result="工具 {tool} 返回：{text}",
    reminder="提醒时间到了：{tasks}。",
    task="你让我提醒的事",
    space="",
)
