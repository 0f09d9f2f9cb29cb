// A controller's agents without its loop, and what they are told in tests.
#pragma once

#include <boost/asio/io_context.hpp>
#include <memory>
#include <string>
#include <vector>

#include "launcher/controller/agents/inbox.h"
#include "launcher/controller/agents/work_sender.h"
#include "launcher/controller/store/job_leavings.h"
#include "launcher/controller/store/store.h"
#include "launcher/os/clocks.h"
#include "launcher/os/timers.h"
#include "scheduler/apply/apply.h"
#include "tests/catch.h"
#include "tests/launcher/controller/fake_transport.h"
#include "tests/launcher/controller/observed.h"
#include "tests/launcher/controller/scratch.h"

namespace muster {

inline NodeAddress address_of(const std::string& node, const std::string& host) {
  NodeAddress address;
  address.id = {node};
  address.transport = TransportKind::ssh;
  address.host = host;
  return address;
}

inline ComputeTarget target_with(Milliseconds lease) {
  ComputeTarget target;
  target.lease = lease;
  return target;
}

inline JobSubmitted a_job(const std::string& name, const std::string& host) {
  JobSubmitted job;
  job.job = {name};
  job.spec.name = name;
  job.target.nodes = {address_of("n1", host)};
  return job;
}

// State is what the test applies, or puts there.
struct Agents : Observed, NodeListener {
  Scratch scratch;
  Home home{scratch.path()};
  boost::asio::io_context io;
  FakeTransport transport;
  State state;
  std::optional<Interval> silent_us;
  std::unique_ptr<Store> store = std::move(*Store::open(home.root, Store::Mode::read_write));
  AsioTimers timers{io};
  AgentPool pool{timers, transport, AgentLaunch{}};
  RankLogs logs{home};
  Observed of_sender;
  WorkSender sender{timers, home, state, pool, logs, of_sender};
  AgentInbox inbox{timers,
                   home,
                   state,
                   pool,
                   logs,
                   *this,
                   [this](const NodeId& node, const JobId& job, AttemptId attempt) {
                     return is_over(state, *store, node, job, attempt);
                   }};

  Agents() { pool.set_listeners({this}); }
  bool take(const NodeId& node, const FromAgent& message, std::string_view payload) override {
    return inbox.take(node, message, payload);
  }
  void node_down(const NodeId& node, const LinkFailure&) override {
    silent_us = pool.find(node)->silence_at_loss();
  }
  void perform() {
    sender.perform([this](const NodeWork& work) { return inbox.clears_away(work); });
  }
  void know(const Observation& what) { apply(state, {from_ms(1), what}); }
  void know(const Decision& what) { apply(state, {from_ms(1), what}); }
  std::shared_ptr<FakeWire> connect(const NodeAddress& address) {
    pool.want(address, target_with(Milliseconds{60000}), "");
    auto wire = transport.answer(transport.asked.size() - 1);
    wire->say(Welcome{});
    return wire;
  }
  void end_job(const std::string& name) {
    JobRow row;
    row.name = name;
    row.state = "Completed";
    row.ended_at = from_ms(9);
    row.attempts = 1;
    REQUIRE(store->append({}, {row}));
  }
};

inline RankOutput output_of(const std::string& job, std::int64_t rank) {
  RankOutput output;
  output.job = {job};
  output.rank = {rank};
  return output;
}

}  // namespace muster
