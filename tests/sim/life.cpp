#include "tests/sim/life.h"

#include <algorithm>
#include <utility>

namespace muster::sim {

namespace {

using Call = std::shared_ptr<std::function<void()>>;

class VirtualAlarm : public Alarm {
 public:
  explicit VirtualAlarm(Call call) : call_(std::move(call)) {}
  ~VirtualAlarm() override { *call_ = nullptr; }

 private:
  Call call_;
};

}  // namespace

std::unique_ptr<Alarm> VirtualTimers::after(Milliseconds delay, std::function<void()> what) {
  auto call = std::make_shared<std::function<void()>>(std::move(what));
  events_.after(std::max(delay, turn_time_), [call, life = life_] {
    if (auto now = std::exchange(*call, nullptr)) life->enter(now);
  });
  return std::make_unique<VirtualAlarm>(std::move(call));
}

void VirtualTimers::post(std::function<void()> call) {
  events_.after(Milliseconds{0}, [call = std::move(call), life = life_] { life->enter(call); });
}

}  // namespace muster::sim
