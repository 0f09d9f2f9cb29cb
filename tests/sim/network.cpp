#include "tests/sim/network.h"

namespace muster::sim {

namespace {

// How soon a blocked direction is tried again.
constexpr Milliseconds resend_interval{250};

}  // namespace

void Pipe::write(std::string bytes) {
  if (vanished_ || end_) return;
  waiting_ += bytes;
  plan();
}

void Pipe::close(const std::string& why) {
  if (end_) return;
  end_ = why;
  plan();
}

void Pipe::lose_tail() {
  if (waiting_.empty() || end_) return;
  waiting_.resize(static_cast<std::size_t>(dice_.upto(static_cast<int>(waiting_.size()) + 1)));
}

void Pipe::vanish() {
  vanished_ = true;
  waiting_.clear();
}

void Pipe::plan() {
  if (planned_ || vanished_) return;
  planned_ = true;
  const Milliseconds delay = weather_.latency + dice_.time(Milliseconds{0}, weather_.jitter);
  events_.after(delay, [self = shared_from_this()] {
    self->planned_ = false;
    self->deliver();
  });
}

void Pipe::deliver() {
  if (vanished_) return;
  if (blocked_) {
    planned_ = true;
    events_.after(resend_interval, [self = shared_from_this()] {
      self->planned_ = false;
      self->deliver();
    });
    return;
  }
  if (!waiting_.empty()) {
    std::string bytes = std::move(waiting_);
    waiting_.clear();
    if (dice_.one_in(20)) {
      const auto part = static_cast<std::size_t>(dice_.upto(static_cast<int>(bytes.size()) + 1));
      waiting_ = bytes.substr(part);
      bytes.resize(part);
    }
    if (!bytes.empty() && reader_.bytes) reader_.bytes(bytes);
    if (!waiting_.empty()) return plan();
  }
  if (end_ && reader_.closed) std::exchange(reader_.closed, nullptr)(*end_);
}

VirtualLink::~VirtualLink() {
  connection_->to_controller->set_reader({});
  if (life_->is_over()) connection_->to_node->lose_tail();
  connection_->to_node->close("the controller closed the connection");
}

void VirtualLink::start(Handlers handlers) {
  const auto shared = std::make_shared<Handlers>(std::move(handlers));
  connection_->to_controller->set_reader(
      {[shared, life = life_](const std::string& bytes) {
         life->enter(
             [&] { shared->on_bytes(std::as_bytes(std::span(bytes.data(), bytes.size()))); });
       },
       [shared, life = life_](const std::string& why) {
         life->enter([&] { shared->on_closed({LinkFailureKind::lost, why}); });
       }});
}

void VirtualLink::write(std::string bytes) {
  before_write_();
  connection_->to_node->write(std::move(bytes));
}

}  // namespace muster::sim
