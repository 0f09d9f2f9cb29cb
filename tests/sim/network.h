// The network between the controller and the nodes: every node has a path with its own weather.
// Bytes keep their order, arrive late and in pieces, wait while a direction is blocked (TCP sends
// them again), or vanish for good when a connection is cut without either end noticing.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "launcher/transport/link/transport.h"
#include "tests/sim/dice.h"
#include "tests/sim/life.h"

namespace muster::sim {

struct Weather {
  Milliseconds latency{1};
  Milliseconds jitter{2};
  bool to_node_blocked = false;
  bool to_controller_blocked = false;
  std::optional<LinkFailure> refusal;  // what connecting meets
  bool blocked() const { return to_node_blocked || to_controller_blocked; }
};

// One direction of a connection.
class Pipe : public std::enable_shared_from_this<Pipe> {
 public:
  struct End {
    std::function<void(const std::string&)> bytes;
    std::function<void(const std::string& why)> closed;
  };

  Pipe(EventQueue& events, Dice& dice, const Weather& weather, const bool& blocked)
      : events_(events), dice_(dice), weather_(weather), blocked_(blocked) {}

  void set_reader(End reader) { reader_ = std::move(reader); }
  void write(std::string bytes);
  void close(const std::string& why);  // the reader hears of it after the bytes
  void lose_tail();                    // what has not arrived is cut somewhere
  void vanish();                       // nothing arrives any more, not even the end
  std::size_t queued_bytes() const { return waiting_.size(); }

 private:
  void plan();
  void deliver();

  EventQueue& events_;
  Dice& dice_;
  const Weather& weather_;
  const bool& blocked_;
  End reader_;
  std::string waiting_;
  std::optional<std::string> end_;
  bool planned_ = false;
  bool vanished_ = false;
};

// A connection as both ends share it. Each end hears of the other's close, if it arrives.
struct Connection {
  std::shared_ptr<Pipe> to_node;
  std::shared_ptr<Pipe> to_controller;

  void reset(const std::string& why) {
    to_node->close(why);
    to_controller->close(why);
  }
  void vanish() {
    to_node->vanish();
    to_controller->vanish();
  }
};

// The controller's end.
class VirtualLink : public Link {
 public:
  VirtualLink(std::shared_ptr<Life> life, std::shared_ptr<Connection> connection,
              std::function<void()> before_write)
      : life_(std::move(life)),
        connection_(std::move(connection)),
        before_write_(std::move(before_write)) {}
  ~VirtualLink() override;
  void start(Handlers handlers) override;
  void write(std::string bytes) override;
  std::size_t queued_bytes() const override { return connection_->to_node->queued_bytes(); }

 private:
  std::shared_ptr<Life> life_;
  std::shared_ptr<Connection> connection_;
  std::function<void()> before_write_;  // where the controller may be killed
};

}  // namespace muster::sim
