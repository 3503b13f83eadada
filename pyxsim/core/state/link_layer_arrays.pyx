"""The arrays of links beyond flits: bit errors, replay buffers, credits as messages (docs/router.md)."""

import numpy as np

from libc.stdint cimport int32_t, int64_t, uint64_t

from pyxsim.core.state.records cimport CreditReturn, Replay, ReplayFlit, VcCredits

from pyxsim.core.state.record_dtypes import CREDIT_RETURN, NEVER_COMES, REPLAY, REPLAY_FLIT, VC_CREDITS

CREDITS_OF_VC = ("returned", "carried", "destroyed", "restored", "pending", "lost")
MOST_SHARE = 1 << 40   # products of flit times and shares of messages stay far below 2^63


cdef class LinkLayerArrays(ArrayOwner):
    """Base class of EngineArrays."""

    def _read_losses(self, links):
        """Bit errors, replay buffers, credits as messages, and links that change."""
        cdef State* s = &self.s
        cdef int64_t count = s.links.count
        link = self.records["link"]
        slots = np.zeros(count, np.int32) if links.replay is None else np.asarray(links.replay, np.int32)
        ack = np.zeros(count, np.int32) if links.ack is None else np.asarray(links.ack, np.int32)
        timeout = np.zeros(count, np.int64) if links.timeout is None else np.asarray(links.timeout, np.int64)
        if len(slots) != count or len(ack) != count or len(timeout) != count or (slots < 0).any() or (ack < 0).any():
            raise ValueError("replay, ack and timeout need an entry for each link, none below 0")
        if (slots.astype(bool) & link["queued"].astype(bool)).any():
            raise ValueError("a link with retry has no output queue")
        if (slots.astype(bool) & (timeout < 1)).any():
            raise ValueError("a link with retry needs a timeout of at least one cycle")
        self.varies = bool(links.varies)
        s.config.lossy = 2 if links.reports_losses else bool(links.lossy or links.error_bound is not None)
        s.config.retry = bool(slots.any())
        s.config.credits = links.credits is not None and bool((np.asarray(links.credits.opposite) >= 0).any())
        s.config.launch_noted = s.config.lossy or s.config.credits
        s.config.unusual = bool(s.config.unusual or s.config.lossy or s.config.retry or s.config.credits)
        if self.varies:
            s.links.up_free = self._longs("up_free", np.zeros(count))
            s.links.pause = self._longs("pause", np.full(3 * count, -1))
        if s.config.lossy:
            bounds = {name: self._mask(name, count) != NULL for name in ("error_bound", "nack_bound")}
            for name in bounds:
                if getattr(links, name) is not None:
                    self.arrays[name][:count] = getattr(links, name)
            s.links.error_bound = <uint64_t*> self._address(self.arrays["error_bound"])
            s.links.nack_bound = <uint64_t*> self._address(self.arrays["nack_bound"])
            s.links.errors = self._longs("link_errors", np.zeros(count), False)
            s.links.lost = self._longs("link_lost", np.zeros(count), False)
            s.links.drops = self._bytes("link_drops", count)
        replay = self._records("replay", REPLAY, count if s.config.retry else 0)
        flits = self._records("replay_flit", REPLAY_FLIT, int(slots.sum()))
        s.links.replay, s.links.replay_flit = <Replay*> self._address(replay), <ReplayFlit*> self._address(flits)
        flits["arrival"] = flits["acked"] = NEVER_COMES
        if s.config.retry:
            for name, values in {
                "slots": slots, "base": np.cumsum(slots) - slots, "ack": ack, "timeout": timeout,
                "rewind_at": NEVER_COMES, "due": NEVER_COMES, "full_at": -1,
            }.items():
                replay[name] = values
        num, den = link["num"], link["den"]
        answered = -(-num // den) + np.maximum(timeout, link["delay"] + link["credit_delay"] + ack.astype(np.int64))
        self.longest = max(int(links.longest), int(answered[slots > 0].max(initial=0)))
        if s.config.credits:   # a message may begin in the next cycle, and is answered as a flit is
            round_trip = 2 * (-(-num // den)).max() + 4 + 2 * link["credit_delay"].max() + int(ack.max(initial=0))
            self.longest = max(self.longest, int(round_trip))

    def _begin_credit_returns(self, links):
        """Records of credits as messages; at the beginning all credits are at their senders, or about to go there."""
        cdef State* s = &self.s
        cdef int64_t count = s.links.count
        link, vc = self.records["link"], self.records["vc"]
        returns = self._records("credit_return", CREDIT_RETURN, count if s.config.credits else 0)
        of_vcs = self._records("vc_credits", VC_CREDITS, s.vcs.count if s.config.credits else 0)
        s.links.credit_return = <CreditReturn*> self._address(returns)
        s.links.vc_credits = <VcCredits*> self._address(of_vcs)
        most = int(link["vcs"].max(initial=1))
        slots = int(self.records["replay"]["slots"].sum()) if s.config.credits else 0
        s.links.replay_credits = self._ints("replay_credits", np.zeros(slots * most))
        s.links.credit_bound = self._mask("credit_bound", count if s.config.credits and s.config.lossy else 0)
        if not s.config.credits:
            return
        given = links.credits
        opposite = np.asarray(given.opposite, np.int64)
        timeout = np.asarray(given.timeout, np.int64)
        pairs = np.flatnonzero(opposite >= 0)
        if len(opposite) != count or len(timeout) != count or (opposite >= count).any():
            raise ValueError("credits.opposite and credits.timeout need an entry for each link")
        if (opposite[opposite[pairs]] != pairs).any() or (opposite == np.arange(count)).any():
            raise ValueError("the opposite link of the opposite link is the link itself")
        ends = [np.where(link[end] < 0, link[other], link[end]) for end, other in (("src", "dst"), ("dst", "src"))]
        if (ends[0][pairs] != ends[1][opposite[pairs]]).any() or (ends[1][pairs] != ends[0][opposite[pairs]]).any():
            raise ValueError("a link and its opposite link have the same ends")
        if not 0 <= given.share <= 1 or given.batch < 1 or given.wait < -1 or given.resync < 0 or (timeout < 1).any():
            raise ValueError("credits need a share from 0 to 1, a batch and timeouts of at least 1")
        if given.wait >= 0 and not given.share:
            raise ValueError("credits that ride on flits need messages that take time")
        num, den = given.share.as_integer_ratio()
        times = link["num"][opposite[pairs]] * num
        if num > MOST_SHARE or (times % den).any():
            raise ValueError("credits.share times a flit time must be a multiple of 1 / s_den")
        s.links.credit_rules.batch, s.links.credit_rules.wait = given.batch, given.wait
        s.links.credit_rules.resync = given.resync
        s.links.credit_rules.share_num, s.links.credit_rules.share_den = num, den
        s.links.credit_rules.all_vcs, s.links.credit_rules.data_first = given.all_vcs, given.data_first
        s.links.credit_rules.cumulative, s.links.credit_rules.advertise = given.cumulative, given.advertise
        s.links.credit_rules.most_vcs = most
        for name, values in {
            "timeout": timeout, "opposite": opposite, "due_at": NEVER_COMES, "wake_at": -1, "listed_at": -1,
            "flit_at": -1,
        }.items():
            returns[name] = values
        returns["num"][pairs] = times // den
        of_vcs["empty_since"] = NEVER_COMES
        if given.bound is not None and s.config.lossy:
            self.arrays["credit_bound"][:count] = given.bound
        if given.advertise:
            sent = opposite[vc["link"]] >= 0
            of_vcs["pending"][sent] = self.records["out"]["credit"][sent]
            of_vcs["forced"][sent], of_vcs["empty_since"][sent] = 1, 0
            self.records["out"]["credit"][sent] = 0
            returns["listed_at"][pairs] = 0
            self.arrays["credit_links"][: len(pairs)] = pairs
            s.scratch.credit_link_count = len(pairs)

    def losses(self):
        cdef int64_t count = self.s.links.count
        none = np.zeros(count, np.int64)
        kept = self.s.config.lossy
        return {name: self.arrays[f"link_{name}"][:count].copy() if kept else none for name in ("errors", "lost")}

    def credit_returns(self):
        links, vcs = self.records["credit_return"], self.records["vc_credits"]
        paired = np.flatnonzero(links["opposite"] >= 0)
        busy = np.zeros(len(links))
        den = np.asarray(self.made_of[0][1].s_den)   # records of links may be in other processes
        busy[paired] = links["busy"][paired] / den[links["opposite"][paired]]
        found = {name: links[name].copy() for name in ("messages", "riding", "destroyed")} | {"busy": busy}
        found["resent"] = np.maximum(links["launched"] - links["messages"], 0)   # those of no size are not launched
        if len(vcs):
            since = np.minimum(vcs["empty_since"], self.s.now)
            counted = links["opposite"][self.records["out"]["link"][self.listed]] >= 0
            found |= {f"vc_{name}": vcs[name][self.listed] for name in CREDITS_OF_VC}
            found["vc_empty"] = (vcs["empty"] + self.s.now - since)[self.listed] * counted
        return found

    def lost_messages(self):
        cdef int32_t message
        if self.s.config.recycling:
            raise ValueError("records of delivered messages are recycled")
        lost = [(message, self.s.pools.messages[message].lost) for message in range(self.s.stats.messages_sent)
                if self.s.pools.messages[message].lost]
        return np.array(lost, np.int64).reshape(-1, 2)
