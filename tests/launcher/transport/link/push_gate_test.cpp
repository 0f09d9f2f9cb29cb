#include "launcher/transport/link/start_gates.h"

#include <boost/asio/io_context.hpp>
#include <vector>

#include "tests/catch.h"

namespace muster {
namespace {

struct Queue {
  boost::asio::io_context io;
  std::shared_ptr<PushGate> gate = std::make_shared<PushGate>(io);
  std::vector<PushGate::Pass> inside;
  int told_to_look = 0;

  void enter(int count, const std::string& build = "b1") {
    for (int i = 0; i < count; ++i) {
      gate->enter(build, [this](PushGate::Pass pass, bool look_again) {
        inside.push_back(std::move(pass));
        told_to_look += look_again ? 1 : 0;
      });
    }
    CHECK(count_after([] {}) > 0);
  }
  template <class Change>
  std::size_t count_after(Change change) {
    change();
    io.restart();
    io.poll();
    return inside.size();
  }
  void first_is_done(bool has_copied) {
    if (has_copied) gate->succeeded("b1");
    inside.erase(inside.begin());
  }
};

TEST_CASE("the first copy goes alone, whoever waits; after it the others go on, looking first") {
  Queue queue;
  queue.enter(40);
  CHECK(queue.inside.size() == 1);
  CHECK(queue.told_to_look == 0);
  CHECK(queue.count_after([&] { queue.first_is_done(true); }) == 16);
  CHECK(queue.told_to_look == 16);
  CHECK(queue.count_after([&] { queue.first_is_done(true); }) == 16);
  CHECK(queue.told_to_look == 17);
  queue.inside.clear();
  CHECK(queue.count_after([] {}) == 16);
  queue.inside.clear();
  CHECK(queue.count_after([] {}) == 6);
  CHECK(queue.told_to_look == 39);
}

TEST_CASE("who comes later waits no more for a build that was copied once, and need not look") {
  Queue queue;
  queue.enter(1);
  CHECK(queue.count_after([&] { queue.first_is_done(true); }) == 0);
  queue.enter(20);
  CHECK(queue.inside.size() == 16);
  CHECK(queue.told_to_look == 0);
}

TEST_CASE("a first copy that failed holds up nobody, and there is nothing to look for") {
  Queue queue;
  queue.enter(20);
  CHECK(queue.count_after([&] { queue.first_is_done(false); }) == 16);
  CHECK(queue.told_to_look == 0);
}

TEST_CASE("builds do not wait for each other") {
  Queue queue;
  queue.enter(2, "b1");
  queue.enter(2, "b2");
  CHECK(queue.inside.size() == 2);
}

}  // namespace
}  // namespace muster
