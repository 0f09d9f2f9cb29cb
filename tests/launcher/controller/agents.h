// A controller's agents without its loop, and what they are told in tests.
#pragma once

#include <boost/asio/io_context.hpp>
#include <memory>
#include <string>
#include <vector>

#include "launcher/controller/agents/inbox.h"
#include "launcher/controller/agents/work_sender.h"
#include "launcher/controller/store/journal.h"
#include "launcher/controller/store/store.h"
#include "launcher/os/clocks.h"
#include "launcher/os/timers.h"
#include "scheduler/apply/apply.h"
#include "tests/catch.h"
#include "tests/launcher/controller/fake_transport.h"
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
struct Agents {
  Scratch scratch;
  Home home{scratch.path()};
  boost::asio::io_context io;
  FakeTransport transport;
  State state;
  std::vector<Observation> observed;
  std::optional<Interval> silent_us;
  int cleared = 0;
  std::unique_ptr<Store> store = std::move(*Store::open(home.root, Store::Mode::read_write));
  AsioTimers timers{io};
  AgentPool pool{timers, transport, AgentLaunch{}, {[](const NodeId&, const Welcome&) {},
                 [this](const NodeId& node, FromAgent message, std::string payload) {
                   inbox.take(node, message, payload);
                 },
                 [this](const NodeId&, LinkFailure, std::optional<Interval> silent) {
                   silent_us = silent;
                 }}};
  RankLogs logs{home};
  WorkSender sender{timers, home, pool,
                    {[](const NodeWork&, const std::string&) {}, [](StagingSeen) {}}};
  AgentInbox inbox{timers, home, state, pool, logs,
                   {[this](Observation what) { observed.push_back(std::move(what)); },
                    [](const JobId&, const JobEvent&) {},
                    [](const JobId&, const std::string&) {},
                    [this](const NodeId& node, const JobId& job, AttemptId attempt) {
                      return is_over(state, *store, node, job, attempt);
                    },
                    [this] { ++cleared; }}};

  void perform() {
    sender.perform(state, [this](const NodeWork& work) { return inbox.clears_away(work); });
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
