// A transport whose connections the test answers: each `connect` waits until it is told how it
// went, each link keeps what was written to it and says what the test says.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "launcher/transport/link/transport.h"
#include "launcher/wire/message_codec.h"
#include "tests/catch.h"

namespace muster {

// What both ends of a link see of it.
struct FakeWire {
  Link::Handlers handlers;
  FrameReader written;
  bool is_closed = false;  // by the controller
  bool reads = true;       // else what is written waits, until the test takes it off
  std::size_t queued_bytes = 0;

  void say(const FromAgent& message, std::string_view payload = {}) {
    const std::string frame = encode(message, payload);
    handlers.on_bytes(std::as_bytes(std::span(frame.data(), frame.size())));
  }
  // Everything of one kind that the controller has said since the last call.
  template <class Message>
  std::vector<Message> take() {
    std::vector<Message> all;
    for (auto frame = written.next(); frame && *frame; frame = written.next()) {
      auto received = decode<ToAgent>(std::move(**frame));
      REQUIRE(received);
      if (auto* message = std::get_if<Message>(&received->message)) all.push_back(*message);
    }
    return all;
  }
};

class FakeLink : public Link {
 public:
  explicit FakeLink(std::shared_ptr<FakeWire> wire) : wire_(std::move(wire)) {}
  ~FakeLink() override { wire_->is_closed = true; }
  void start(Handlers handlers) override { wire_->handlers = std::move(handlers); }
  void write(std::string bytes) override {
    wire_->written.feed(std::as_bytes(std::span(bytes.data(), bytes.size())));
    if (!wire_->reads) wire_->queued_bytes += bytes.size();
  }
  std::size_t queued_bytes() const override { return wire_->queued_bytes; }

 private:
  std::shared_ptr<FakeWire> wire_;
};

class FakeTransport : public Transport {
 public:
  struct Asked {
    NodeAddress address;
    std::function<void(ConnectResult)> done;
    AgentLaunch launch;
  };

  void connect(const NodeAddress& node, const AgentLaunch& launch,
               std::function<void(ConnectResult)> done) override {
    asked.push_back({node, std::move(done), launch});
  }
  // The try with this number reaches its agent; `how`: besides its link.
  std::shared_ptr<FakeWire> answer(std::size_t number, Connected how = {}) {
    auto wire = std::make_shared<FakeWire>();
    how.link = std::make_unique<FakeLink>(wire);
    asked.at(number).done(std::move(how));
    return wire;
  }

  std::vector<Asked> asked;
};

}  // namespace muster
