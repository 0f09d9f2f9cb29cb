// What a piece of pending work is called on the wire: the message for the node, made from State,
// the job and what is known of the other nodes. Makes no decision.
#pragma once

#include <string>

#include "launcher/controller/agent_pool.h"
#include "launcher/controller/home.h"
#include "launcher/wire/agent_message.h"
#include "scheduler/decide.h"

namespace muster {

// For every kind of work but staging, which needs the job's trees.
ToAgent work_message(const State& state, const NodeWork& work, Time now, AgentPool& pool,
                     const Home& home);

bool runs_mpirun(const JobSpec& spec);

// Where the job's checkpoints lie on a node: muster.checkpoint.path, a directory that all nodes
// see, or empty for the job's own directory on each node.
std::string checkpoint_path_of(const Job& job, const Home& home);

// Where outputs go when every node can write there directly; empty: collected from the nodes.
std::string shared_outputs_of(const Job& job, const Home& home);

}  // namespace muster
