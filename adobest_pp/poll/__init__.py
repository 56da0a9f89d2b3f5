"""Polls of real people on their own devices: the browser randomizes, a server on this machine collects."""

from adobest_pp.poll.polls import OpenPoll, PollQuestion, create_poll

__all__ = ["OpenPoll", "PollQuestion", "create_poll"]
