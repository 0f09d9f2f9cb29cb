// What each record does to State, one function a record; `apply` dispatches to them. Only
// apply*.cpp include this.
#pragma once

#include "scheduler/state/state.h"

namespace muster {

// apply.cpp
void apply_one(State& state, Time at, const JobSubmitted& record);
void apply_one(State& state, Time at, const CancelRequested& record);
void apply_one(State& state, Time at, const ResumeRequested& record);
void apply_one(State& state, Time at, const JobPending& record);
void apply_one(State& state, Time at, const RetryScheduled& record);
void apply_one(State& state, Time at, const JobEnded& record);

// node.cpp
void apply_one(State& state, Time at, const NodeDrainSet& record);
void apply_one(State& state, Time at, const LinkUp& record);
void apply_one(State& state, Time at, const LinkDown& record);
void apply_one(State& state, Time at, const NodeNotice& record);
void apply_one(State& state, Time at, const NodeSuspected& record);
void apply_one(State& state, Time at, const NodeSetAside& record);
void apply_one(State& state, Time at, const BreakerOpened& record);
void apply_one(State& state, Time at, const BreakerReset& record);
void apply_one(State& state, Time at, const NodeFaultsSeen& record);
void apply_one(State& state, Time at, const NodeFaulted& record);
void apply_one(State& state, Time at, const NodeFaultOver& record);

// node.cpp: resets and reboots that muster carries out
void apply_one(State& state, Time at, const RemedyBegun& record);
void apply_one(State& state, Time at, const RemedyEnded& record);
void apply_one(State& state, Time at, const RemedyOver& record);

// placement.cpp: which nodes an attempt has, from its placement to its end
void apply_one(State& state, Time at, const AttemptPlaced& record);
void apply_one(State& state, Time at, const NodeReplaced& record);
void apply_one(State& state, Time at, const SpareDropped& record);
void apply_one(State& state, Time at, const SpareAdded& record);
void apply_one(State& state, Time at, const PlacementAbandoned& record);
void apply_one(State& state, Time at, const HostsAsked& record);
void apply_one(State& state, Time at, const AnswersAwaited& record);
void apply_one(State& state, Time at, const AttemptEnded& record);

// membership.cpp: how an elastic attempt grows and shrinks
void apply_one(State& state, Time at, const NodeAdded& record);
void apply_one(State& state, Time at, const JoinBegun& record);
void apply_one(State& state, Time at, const NodeReady& record);
void apply_one(State& state, Time at, const MembersChanged& record);
void apply_one(State& state, Time at, const MembersTold& record);
void apply_one(State& state, Time at, const NodeLeaving& record);
void apply_one(State& state, Time at, const NodeReleased& record);

// attempt.cpp: the phases of an attempt
void apply_one(State& state, Time at, const StagingBegun& record);
void apply_one(State& state, Time at, const PortsAsked& record);
void apply_one(State& state, Time at, const LaunchBegun& record);
void apply_one(State& state, Time at, const StopBegun& record);
void apply_one(State& state, Time at, const NodeFenced& record);
void apply_one(State& state, Time at, const CollectionBegun& record);
void apply_one(State& state, Time at, const DeliveryBegun& record);

// report.cpp: what agents say about an attempt
void apply_one(State& state, Time at, const NodeChecked& record);
void apply_one(State& state, Time at, const StagingSeen& record);
void apply_one(State& state, Time at, const NodeStaged& record);
void apply_one(State& state, Time at, const PortsReserved& record);
void apply_one(State& state, Time at, const NodeStarted& record);
void apply_one(State& state, Time at, const RankExited& record);
void apply_one(State& state, Time at, const ProgressSeen& record);
void apply_one(State& state, Time at, const NodeClean& record);
void apply_one(State& state, Time at, const CollectionSeen& record);
void apply_one(State& state, Time at, const OutputsCollected& record);
void apply_one(State& state, Time at, const OutputsDelivered& record);
void apply_one(State& state, Time at, const StallSeen& record);

// For explain and the report: State stays as it is.
template <class Told>
requires Told::is_told_only void apply_one(State&, Time, const Told&) {}

// Shared by them.
Node& node_at(State& state, const NodeId& id);        // made when first heard of
AttemptNode fresh_node(const NodeId& id, Time at);    // of which nothing has been heard
AttemptNode joining_node(const NodeId& id, Time at);  // the same, while the others run
void deal_ranks(Attempt& attempt, const Distribution& distribution);  // to the nodes it has now
bool is_free(const State& state, const NodeId& id);
void forget_spare(Attempt& attempt, const NodeId& id);
// That its gate measured it until now, where it did: before anything changes that ends that.
void note_measured(State& state, const JobId& job, const NodeId& node, Time at);
void remember_agent(const State& state, AttemptNode& node);  // that is told to start ranks
void see_outputs(AttemptNode& node, Time at);  // they arrive, or may do so from now on
void run_when_started(Attempt& attempt, Time at);
void release(State& state, const NodeId& id, const JobId& owner);
// Or keeps it, because processes of the attempt there do not die.
void release_after(State& state, const AttemptNode& node, const StopBegun& why);
void lose_ranks(Attempt& attempt, const NodeId& id, Time at);  // unfinished ones are gone

}  // namespace muster
