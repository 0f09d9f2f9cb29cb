#include "launcher/relay/relay_desk.h"

#include <boost/asio/io_context.hpp>

#include "launcher/transport/ssh_settings.h"
#include "tests/catch.h"

namespace muster {

TEST_CASE("the answer for a login that was cut off is not taken for the next one's") {
  boost::asio::io_context io;
  RelayConnect asked;
  asked.ticket = 1;
  const auto desk = std::make_shared<RelayDesk>(io, asked,
                                                [](const FromRelay&, std::string_view) {});
  std::vector<bool> first, second;
  const auto into = [](std::vector<bool>& verdicts) {
    return [&verdicts](const HostKeyVerdict& verdict) {
      verdicts.push_back(std::holds_alternative<HostKeyTrusted>(verdict));
    };
  };
  desk->judge({}, "first key", into(first));
  desk->judge({}, "second key", into(second));
  desk->judged(true);
  CHECK(second.empty());
  desk->judged(false);
  CHECK(second == std::vector<bool>{false});

  std::vector<std::string> signatures;
  const auto take = [&](const std::optional<std::string>& bytes) {
    signatures.push_back(bytes.value_or(""));
  };
  auto keys = desk->key_agent();
  keys->sign("k", "first login", take);
  keys = desk->key_agent();
  keys->sign("k", "second login", take);
  desk->signature("of the first");
  CHECK(signatures.empty());
  desk->signature("of the second");
  CHECK(signatures == std::vector<std::string>{"of the second"});
}

}  // namespace muster
