#include <array>

#include "health/model/catalogue_words.h"

namespace muster {

namespace fabric_catalogue {

using namespace catalogue_words;
using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;
using std::chrono_literals::operator""min;

constexpr std::array<CheckSpec, 4> table{
    {{"fab.errors", "ibqueryerrors --data",
      "each counter's growth in 5 to 10 minutes is within its limit", warn, FaultClass::node,
      Persistence::delta, Phase::on_failure | Phase::periodic | Phase::qualification, 150ms},
     {"fab.links", "iblinkinfo -l", "4X and the profile's rate; no cabled port is Down or Polling",
      drain, FaultClass::node, Persistence::samples,
      Phase::prolog | Phase::on_failure | Phase::qualification, 200ms},
     {"fab.discover", "ibnetdiscover -p", "every adapter of the golden topology is found", drain,
      FaultClass::node, Persistence::samples, Phase::periodic | Phase::qualification, 200ms},
     {"fab.sm", "sminfo", "a subnet manager is master", warn, FaultClass::infra,
      Persistence::samples, Phase::periodic | Phase::qualification, 5ms}}};

}  // namespace fabric_catalogue

std::span<const CheckSpec> fabric_checks() {
  return fabric_catalogue::table;
}

}  // namespace muster
