// The core's own limits and delays, each with its reason. What a job or a target may set is in the
// spec.
#pragma once

#include <cstddef>
#include <cstdint>

#include "scheduler/text/clock.h"

namespace muster {

// A node that has not answered by then is passed over: sshd under load answers a login in 5 s, and
// a first push of the agent's binary takes about 10 s on a slow link.
inline constexpr Milliseconds link_limit{20'000};

// Whoever waits for a node hears within this time that it does not answer.
inline constexpr Milliseconds first_word{2'000};

// Other nodes that are asked, besides those that are wanted and two for each that does not answer:
// not the whole target, for each gets an agent.
inline constexpr std::size_t asked_besides_least = 8;

// With a spare at hand, waiting for a lost node soon costs more than moving on. A host that stands
// still for 15 s, and then needs a login, is not lost.
inline constexpr Milliseconds lost_with_spare{20'000};

// For so long a host may refuse connections after its last word: its sshd or a firewall restarts.
inline constexpr Milliseconds lost_when_denied{4'000};

// Told in advance, a host goes a little before its time: the proof and the last output have to be
// gone by then.
inline constexpr Milliseconds notice_margin{2'000};

// A host that should have gone this long ago and does not say that it stays is tried again: it may
// have rebooted, and its agent says so if it is still to go, before anything starts there.
inline constexpr Milliseconds notice_outlives{15'000};
inline constexpr Milliseconds endless_notice{60 * 60'000};  // of a notice that names no time

// Another agent answers on a host whose time is over, and says nothing of leaving: it would say so
// within a second of the greeting.
inline constexpr Milliseconds notice_unsaid{5'000};

// Faults come back within days: a card that fails under load, a cable, a disk that fills.
inline constexpr Milliseconds suspicion_half_life{7 * 24 * 3'600'000};

// In thousandths of a job: three different jobs within days. The first of three has faded a little
// by the third, so the limit lies between two and three.
inline constexpr std::int64_t suspicion_limit = 2'500;

// More pieces than that in a few weeks are a drained node.
inline constexpr std::size_t evidence_kept = 16;

// More nodes of a target than both of these within the window break jobs for one cause, and it is
// not theirs. A health check has the limits of its target's profile.
inline constexpr int breaker_nodes = 2;
inline constexpr int breaker_percent = 5;
inline constexpr Milliseconds breaker_window{10 * 60'000};

// Agents read the rarest source every two minutes and believe a state after three looks, seconds
// apart: by then all nodes that share the cause of a fault have told of it.
inline constexpr Milliseconds shared_cause_settles{150'000};

// A state that comes and goes bounces jobs to the node and away again: it stays away for so long.
inline constexpr Milliseconds fault_drain_least{5 * 60'000};

// A board that is faulty comes back within weeks; three reboots in a day are a loop that hides it.
inline constexpr Milliseconds fault_memory{30LL * 24 * 3'600'000};
inline constexpr Milliseconds reboot_window{24 * 3'600'000};
inline constexpr int reboots_before_repair = 3;
inline constexpr std::size_t remedies_kept = 50'000;

// A reset of one GPU takes seconds, of eight with their switches about a minute; a driver that
// hangs is left to the next step.
inline constexpr Milliseconds reset_limit{5 * 60'000};

// The command of a reboot only asks for it; `ipmitool` gives up on a silent board sooner.
inline constexpr Milliseconds reboot_command_limit{2 * 60'000};

// Memory training of a host with 2 TB takes eight minutes; services and the agent's login follow.
inline constexpr Milliseconds reboot_back_limit{15 * 60'000};

// What a request on a slow link, and the word of how its command ended, may need beyond that time.
inline constexpr Milliseconds remedy_answer_margin{2 * 60'000};

// A lost link is usually the network's doing: the host's power is left alone for so long.
inline constexpr Milliseconds remedy_link_limit{5 * 60'000};

// So many on one node in a day are a fault that they do not mend.
inline constexpr int remedies_a_day = 3;
inline constexpr Milliseconds remedy_day{24 * 3'600'000};

// Nodes of a target that are reset or rebooted at once: a mistaken check must not take a cluster.
inline constexpr int remedies_at_once = 1;
inline constexpr int remedies_at_once_percent = 5;

// A start gate that has not answered by then is broken: the longest gate (`full`) takes minutes.
inline constexpr Milliseconds check_limit{15 * 60'000};

// A node that is being given the job's files, and of which nothing has been heard for this long:
// longer than an agent may take to copy a large tree between two reports (15 min).
inline constexpr Milliseconds stage_limit{20 * 60'000};

// Reserving a port is one bind(2); more means that the agent is stuck.
inline constexpr Milliseconds reserve_limit{5 * 60'000};

// Starting may pull up a container, but its image is there since staging.
inline constexpr Milliseconds start_limit{30 * 60'000};

// An abandoned placement is retried after 5, 10, 20, 30, 30 … s: often enough for a node that comes
// back, rarely enough that a waiting job does not fill the journal.
inline constexpr Milliseconds retry_placement_first{5'000};
inline constexpr Milliseconds retry_placement_most{30'000};

// Processes that survive SIGKILL this long (stuck in the kernel) are not waited for any longer; the
// node stays with its job until they are gone.
inline constexpr Milliseconds unkillable_limit{60'000};

// An agent that answers, but has not proven the ranks gone this long after their grace. It owes the
// ranks' last output first: 2 GB of it on a link of 1 MB/s take half an hour.
inline constexpr Milliseconds proof_limit{30 * 60'000};

// A node that joins has its program to load and its heartbeat to write: container images and large
// data sets are there by then.
inline constexpr Milliseconds join_limit{10 * 60'000};

// Each change of the members interrupts the run for a moment: nodes that come together are let in
// together.
inline constexpr Milliseconds join_together{10'000};

// Ranks that became members when the others had just ended wait for nobody. Those that trained with
// them end within seconds of each other.
inline constexpr Milliseconds late_member_limit{60'000};

// What a hung attempt is given to stop: a stack dump takes a second, a save needs every rank.
inline constexpr Milliseconds hang_grace{10'000};

// A node that sends its outputs, and from which nothing has come for this long: as for staging.
inline constexpr Milliseconds collect_limit{20 * 60'000};

// A node that is gone when every rank had ended with 0: a host that reboots is back by then.
inline constexpr Milliseconds collect_link_limit{10 * 60'000};

// Outputs that could not be copied are asked again after 5, 10, 20, 30 s: a full disk that somebody
// sees is mended by then or not soon.
inline constexpr int collect_tries = 5;
inline constexpr Milliseconds retry_collection_first{5'000};
inline constexpr Milliseconds retry_collection_most{30'000};

// After its lease an agent, or its keeper, needs a moment to kill and reap. The node's clock may
// run slower than the controller's by 2 %: crystals differ by 0.02 %, what steers them adds 0.05 %.
inline constexpr Milliseconds kill_margin{4'000};
constexpr Milliseconds lease_margin(Milliseconds lease) {
  return kill_margin + lease / 50;
}

// After the grace all processes of an attempt get SIGTERM, and so long after that SIGKILL.
inline constexpr Milliseconds end_of_grace{5'000};

// From a program's last words to its end: an interpreter that unloads its libraries, flushes its
// logs and says goodbye to services.
inline constexpr std::int64_t exit_lag_limit_us = 30'000'000;

// A journal record holds this many candidates for the first failure; more say no more.
inline constexpr std::size_t candidates_kept = 64;

// A sentence names this many nodes, then counts the rest.
inline constexpr int nodes_named = 8;

}  // namespace muster
