
#include "cli/client/start.h"
#include "tests/catch.h"
#include "tests/cli/fake_controller.h"
#include "tests/cli/folder.h"

using namespace muster;

namespace {

struct AHome {
  Folder folder;
  const Home home{folder.path()};
};

std::string bytes_of(const FromController& message) {
  return encode(message);
}

Result<FromController> ask_once(const Home& home, const ToController& question,
                                Milliseconds timeout = Milliseconds{5000}) {
  auto client = ControllerClient::connect(home);
  REQUIRE(client);
  REQUIRE(*client);
  return ask(**client, question, timeout);
}

}  // namespace

TEST_CASE("where nobody listens there is no client and no error") {
  Folder folder;
  const auto none = ControllerClient::connect({folder.path()});
  REQUIRE(none);
  CHECK_FALSE(*none);
  CHECK_FALSE(*ControllerClient::connect({folder.path() / "absent"}));
}

TEST_CASE_METHOD(AHome, "the socket file of a dead controller counts as nobody") {
  { FakeController dead(home, 0, {}); }
  const auto none = ControllerClient::connect(home);
  REQUIRE(none);
  CHECK_FALSE(*none);
}

TEST_CASE_METHOD(AHome, "a question gets its answer, also when it comes in pieces") {
  FakeController controller(home, 1, [](const ToController& request) {
    REQUIRE(std::holds_alternative<AskVersion>(request));
    return bytes_of(VersionAnswer{"abc", 7, 2});
  });
  const auto answer = ask_once(home, AskVersion{});
  REQUIRE(answer);
  CHECK(std::get<VersionAnswer>(*answer).build_id == "abc");
}

TEST_CASE_METHOD(AHome, "several messages of one connection come in order") {
  FakeController controller(home, 1, [](const ToController&) {
    JobEvent event;
    event.state = "Running";
    return bytes_of(event) + bytes_of(Ended{JobId{"j"}, "Completed", 0, "done"});
  });
  auto client = ControllerClient::connect(home);
  REQUIRE((client && *client));
  REQUIRE((*client)->send(Watch{JobId{"j"}}));
  const auto first = (*client)->receive(Milliseconds{5000});
  REQUIRE((first && *first));
  CHECK(std::get<JobEvent>((*first)->message).state == "Running");
  const auto second = (*client)->receive(Milliseconds{5000});
  REQUIRE((second && *second));
  CHECK(std::get<Ended>((*second)->message).reason == "done");
  CHECK_FALSE((*client)->receive(Milliseconds{5000}));
}

TEST_CASE_METHOD(AHome, "a controller that closes, or talks nonsense, is an error") {
  FakeController controller(home, 2, [](const ToController& request) {
    if (std::holds_alternative<AskNodes>(request)) return std::string();
    return std::string("\xff\xff\xff\xff\xff\xff\xff\xff garbage");
  });
  CHECK_THAT(ask_once(home, AskNodes{}).error().message, ContainsSubstring("closed"));
  CHECK_FALSE(ask_once(home, AskVersion{}));
}

TEST_CASE("a path longer than a socket address is reached all the same") {
  Folder folder;
  const Home home{folder.path() / std::string(120, 'x')};
  CHECK_FALSE(*ControllerClient::connect(home));
}

TEST_CASE("a state directory is made private, and one that cannot be is named with the cure") {
  Folder folder;
  const Home home{folder.path() / "a" / "b"};
  REQUIRE(prepare_home(home));
  const auto mode = std::filesystem::status(home.root).permissions();
  CHECK((mode & std::filesystem::perms::all) == std::filesystem::perms::owner_all);
  folder.append("file", "");
  CHECK_THAT(prepare_home({folder.path() / "file" / "home"}).error().message,
             ContainsSubstring("MUSTER_HOME"));
}

TEST_CASE_METHOD(AHome,
                 "a controller that ends in the instant of the question is asked once more") {
  int asked = 0;
  FakeController controller(home, 3, [&asked](const ToController&) {
    asked += 1;
    return asked == 1 ? std::string() : bytes_of(VersionAnswer{own_build_id(), 7, 0});
  });
  CHECK(ensure_controller(home, {}));
}
