#include "launcher/os/timers.h"
#include "tests/catch.h"

using namespace muster;

TEST_CASE("an alarm rings once, in its turn, and never from inside the call that sets it") {
  boost::asio::io_context io;
  AsioTimers timers(io);
  std::string heard;
  const auto late = timers.after(Milliseconds{2}, [&] { heard += "late "; });
  const auto soon = timers.after(Milliseconds{0}, [&] { heard += "soon "; });
  timers.post([&] { heard += "posted "; });
  CHECK(heard.empty());
  io.run();
  CHECK(heard == "posted soon late ");
}

TEST_CASE("an alarm that was taken back does not ring, even when its time had come") {
  boost::asio::io_context io;
  AsioTimers timers(io);
  bool rang = false;
  auto first = timers.after(Milliseconds{0}, [&] { rang = true; });
  auto second = timers.after(Milliseconds{0}, [&] { rang = true; });
  timers.post([&] { first.reset(); });
  second.reset();
  io.run();
  CHECK_FALSE(rang);
}

TEST_CASE("an alarm may be set anew from inside its own call") {
  boost::asio::io_context io;
  AsioTimers timers(io);
  int rings = 0;
  std::unique_ptr<Alarm> alarm;
  std::function<void()> ring = [&] {
    if (++rings < 3) alarm = timers.after(Milliseconds{1}, ring);
  };
  alarm = timers.after(Milliseconds{1}, ring);
  io.run();
  CHECK(rings == 3);
}
