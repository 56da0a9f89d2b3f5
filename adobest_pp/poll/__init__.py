"""Polls of real people on their own devices: the browser randomizes, a server on this machine collects."""

from adobest_pp.poll.polls import Poll, PollQuestion, create_poll

__all__ = ["Poll", "PollQuestion", "create_poll"]
