#include "cli/client/follow.h"

#include <atomic>

#include "cli/client/start.h"
#include "tests/catch.h"
#include "tests/cli/fake_controller.h"
#include "tests/cli/folder.h"

using namespace muster;

namespace {

// Follows a job whose controller gives these answers, one after the other, to who watches, and then
// none; counts how often it was asked.
struct Watched {
  explicit Watched(std::vector<std::string> given) : answers(std::move(given)) {}

  Followed follow(int connections) {
    const Home home{folder.path()};
    FakeController controller(home, connections, of_this_build([this](const ToController&) {
                                const auto at = static_cast<std::size_t>(asked++);
                                return at < answers.size() ? answers[at] : std::string();
                              }));
    FollowRequest request;
    request.job = JobId{"j"};
    CommonOptions quiet;
    quiet.only_show_errors = true;
    const Followed followed = follow_job(home, request, quiet);
    for (int i = 2 * asked; i < connections; ++i) (void)ControllerClient::connect(home);
    return followed;
  }

  Folder folder;
  std::vector<std::string> answers;
  std::atomic<int> asked{0};
};

std::string event() {
  return encode(FromController{JobEvent{}});
}

std::string ended(int code) {
  Ended end;
  end.job = JobId{"j"};
  end.exit_code = code;
  return encode(FromController{end});
}

}  // namespace

TEST_CASE("following ends with what the job ended with") {
  Watched watched({event() + ended(7)});
  const Followed followed = watched.follow(2);
  REQUIRE(followed.ended);
  CHECK(followed.exit_code == 7);
  CHECK(watched.asked == 1);
}

TEST_CASE("a refusal ends following with the code of the refusal, and is not asked again") {
  Watched watched({encode(FromController{Refused{"no such job", 1}})});
  const Followed followed = watched.follow(2);
  CHECK_FALSE(followed.ended);
  CHECK(followed.exit_code == 1);
  CHECK(watched.asked == 1);
}

TEST_CASE("a controller that goes away again and again is asked six times in a row, no more") {
  Watched watched({});
  const Followed followed = watched.follow(14);
  CHECK_FALSE(followed.ended);
  CHECK(followed.exit_code == 99);
  CHECK(watched.asked == 6);
}

TEST_CASE("a controller that says something before it goes away may be followed for ever") {
  Watched watched({event(), event(), event(), event(), event(), event(), event(), ended(0)});
  const Followed followed = watched.follow(16);
  REQUIRE(followed.ended);
  CHECK(followed.exit_code == 0);
  CHECK(watched.asked == 8);
}
