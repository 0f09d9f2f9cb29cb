// What clients ask of a controller, over its socket.
#include "launcher/controller/clients/requests.h"

#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/write.hpp>

#include "scheduler/model/exit_code.h"
#include "tests/launcher/controller/running_controller.h"

namespace muster {
namespace {

using Stream = boost::asio::local::stream_protocol::socket;

struct Served : RunningController {
  std::optional<Requests> requests;
  std::optional<RequestServer> server;

  Served() {
    start();
    requests.emplace(controller->request_context());
    server.emplace(
        io,
        [this](const std::shared_ptr<Session>& session, ToController request, std::string payload) {
          requests->handle(session, std::move(request), payload);
        },
        [this](const std::shared_ptr<Session>& session) { controller->client_gone(session); });
    REQUIRE(server->listen(scratch.path() / "controller.sock"));
  }
};

// A client of its own process, but for the loop, which runs while it waits.
class Client {
 public:
  explicit Client(Served& served) : served_(served), stream_(served.io) {
    stream_.connect((served.scratch.path() / "controller.sock").string());
    stream_.non_blocking(true);
  }
  void send(const ToController& message) {
    boost::asio::write(stream_, boost::asio::buffer(encode(message)));
  }
  void send_bytes(const std::string& bytes) {
    boost::asio::write(stream_, boost::asio::buffer(bytes));
  }
  // Nothing: the controller has closed.
  std::optional<FromController> next() {
    std::array<std::byte, 65536> buffer;
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (true) {
      REQUIRE(std::chrono::steady_clock::now() < deadline);
      auto frame = reader_.next();
      REQUIRE(frame);
      if (*frame) return decode<FromController>(std::move(**frame))->message;
      served_.io.run_one_for(std::chrono::milliseconds(5));
      boost::system::error_code error;
      const std::size_t got = stream_.read_some(boost::asio::buffer(buffer), error);
      if (error && error != boost::asio::error::would_block) return std::nullopt;
      reader_.feed(std::span(buffer).first(got));
    }
  }
  template <class Message>
  Message expect() {
    const auto message = next();
    REQUIRE(message);
    REQUIRE(std::holds_alternative<Message>(*message));
    return std::get<Message>(*message);
  }

 private:
  Served& served_;
  Stream stream_;
  FrameReader reader_;
};

template <class Answer>
Answer ask_for(Served& served, const ToController& request) {
  Client client(served);
  client.send(request);
  Answer answer = client.expect<Answer>();
  if constexpr (!std::is_same_v<Answer, JobEvent>) CHECK_FALSE(client.next());
  return answer;
}

Submit submission(const std::string& name) {
  const JobSubmitted job = a_job(name, "a");
  return {job.spec, job.target, "ann", "command: x"};
}

std::optional<JobRow> row_of(const Served& served, const std::string& name) {
  return *served.store(Store::Mode::read_only)->job({name});
}

TEST_CASE("a job is in the journal when its submission is answered, and its name is taken") {
  Served served;
  CHECK(ask_for<Accepted>(served, submission("j")).job.value == "j");
  REQUIRE(row_of(served, "j"));
  CHECK(row_of(served, "j")->user == "ann");
  const auto again = ask_for<Refused>(served, submission("j"));
  CHECK_THAT(again.message, ContainsSubstring("exists already"));
  CHECK(again.exit_code == static_cast<int>(ExitCode::invalid_job));
  CHECK(ask_for<Accepted>(served, submission("k")).job.value == "k");
}

TEST_CASE("a name that is no directory of its own is refused, and so is a target without nodes") {
  Served served;
  for (const std::string name : {"", "-f", ".", "..", "a/b", "a b", "\xc3\xa4"}) {
    const auto refused = ask_for<Refused>(served, submission(name));
    CHECK(refused.exit_code == static_cast<int>(ExitCode::invalid_job));
  }
  CHECK(ask_for<Refused>(served, submission(std::string(256, 'a'))).exit_code != 0);
  CHECK(ask_for<Accepted>(served, submission(std::string(255, 'a'))).job.value.size() == 255);
  CHECK(ask_for<Accepted>(served, submission("Az09_-")).job.value == "Az09_-");
  Submit nowhere = submission("nowhere");
  nowhere.target.nodes.clear();
  CHECK_THAT(ask_for<Refused>(served, nowhere).message, ContainsSubstring("has no nodes"));
  CHECK_FALSE(row_of(served, "nowhere"));
}

TEST_CASE("a name whose submission could not be journaled is free again") {
  Served served;
  served.disk_fails = true;
  const auto refused = ask_for<Refused>(served, submission("j"));
  CHECK(refused.message == "the disk is full");
  CHECK(refused.exit_code == static_cast<int>(ExitCode::internal));
  served.disk_fails = false;
  CHECK(ask_for<Accepted>(served, submission("j")).job.value == "j");
}

TEST_CASE("who watches a job hears its state, then what happens, then its end") {
  Served served;
  ask_for<Accepted>(served, submission("j"));
  Client watcher(served);
  watcher.send(Watch{{"j"}});
  CHECK(watcher.expect<JobEvent>().state == row_of(served, "j")->state);
  ask_for<Accepted>(served, Cancel{{"j"}, {}});
  std::vector<JobEvent> events;
  std::optional<Ended> end;
  while (const auto message = watcher.next()) {
    if (const auto* event = std::get_if<JobEvent>(&*message))
      events.push_back(*event);
    else
      end = std::get<Ended>(*message);
  }
  CHECK(std::any_of(events.begin(), events.end(), [](const JobEvent& event) {
    return event.sentence.find("cancel") != std::string::npos;
  }));
  REQUIRE(end);
  CHECK(end->job.value == "j");
  CHECK(end->state == "Canceled");
  CHECK(end->exit_code == static_cast<int>(ExitCode::canceled));
  // Of a job that is over the end alone.
  CHECK(ask_for<Ended>(served, Watch{{"j"}}).state == "Canceled");
  CHECK(ask_for<Refused>(served, Watch{{"unknown"}}).exit_code == 1);
}

TEST_CASE("what has ended is not canceled, what has not is not resumed, what is unknown neither") {
  Served served;
  ask_for<Accepted>(served, submission("j"));
  CHECK_THAT(ask_for<Refused>(served, Resume{{"j"}, {}}).message,
             ContainsSubstring("has not ended"));
  Client watcher(served);
  watcher.send(Watch{{"j"}});
  ask_for<Accepted>(served, Cancel{{"j"}, {}});
  while (watcher.next()) {
  }
  const auto late = ask_for<Refused>(served, Cancel{{"j"}, {}});
  CHECK_THAT(late.message, ContainsSubstring("has already ended: Canceled"));
  CHECK(late.exit_code == 1);
  for (const ToController& about_nobody :
       {ToController(Cancel{{"unknown"}, {}}), ToController(Resume{{"unknown"}, {}})}) {
    const auto refused = ask_for<Refused>(served, about_nobody);
    CHECK_THAT(refused.message, ContainsSubstring("job unknown not found"));
    CHECK(refused.exit_code == 1);
  }
  CHECK(ask_for<Accepted>(served, Resume{{"j"}, {}}).job.value == "j");
  CHECK_FALSE(row_of(served, "j")->ended_at);
  CHECK(row_of(served, "j")->state != "Canceled");
}

TEST_CASE("a drain is known to who asks for the nodes, with its reason, until it is lifted") {
  Served served;
  ask_for<Accepted>(served, submission("j"));
  ask_for<Accepted>(served, SetDrain{{"n1"}, true, "fan"});
  auto nodes = ask_for<NodesAnswer>(served, AskNodes{}).nodes;
  REQUIRE(nodes.size() == 1);
  CHECK(nodes[0].node == "n1");
  CHECK(nodes[0].drained);
  CHECK(nodes[0].drain_reason == "fan");
  CHECK(nodes[0].link != "up");
  CHECK(ask_for<Accepted>(served, SetDrain{{"n1"}, false, ""}).note.empty());
  CHECK(ask_for<Accepted>(served, SetDrain{{"n1"}, false, ""}).note ==
        "n1 was neither drained nor cordoned");
  nodes = ask_for<NodesAnswer>(served, AskNodes{}).nodes;
  CHECK_FALSE(nodes.at(0).drained);
  CHECK_THAT(ask_for<Refused>(served, ResetBreaker{"lab"}).message,
             ContainsSubstring("nothing to reset"));
}

TEST_CASE("a controller says its build and how many jobs it has, and ends when it is told to") {
  Served served;
  CHECK(ask_for<VersionAnswer>(served, AskVersion{}).live_jobs == 0);
  ask_for<Accepted>(served, submission("j"));
  const auto version = ask_for<VersionAnswer>(served, AskVersion{});
  CHECK(version.live_jobs == 1);
  CHECK(version.build_id == served.controller->request_context().build_id);
  CHECK(served.ends_asked == 0);
  ask_for<Accepted>(served, Shutdown{});
  served.run_until([&served] { return served.ends_asked == 1; });
}

TEST_CASE("requests that come together are answered in order, and none after the last answer") {
  Served served;
  Client client(served);
  client.send_bytes(encode(ToController{submission("j")}) + encode(ToController{submission("k")}));
  CHECK(client.expect<Accepted>().job.value == "j");
  CHECK(client.expect<Accepted>().job.value == "k");
  CHECK_FALSE(client.next());
  Client late(served);
  late.send_bytes(encode(ToController{AskVersion{}}) + encode(ToController{submission("late")}));
  CHECK(late.expect<VersionAnswer>().live_jobs == 2);
  CHECK_FALSE(late.next());
  CHECK_FALSE(row_of(served, "late"));
}

TEST_CASE("a client that talks nonsense is refused or dropped, and the next one is served") {
  Served served;
  {
    Client client(served);
    client.send_bytes(encode_frame("no CBOR at all", ""));
    CHECK(client.expect<Refused>().exit_code == static_cast<int>(ExitCode::internal));
    CHECK_FALSE(client.next());
  }
  {
    Client client(served);
    client.send_bytes(std::string(64, '\xff'));
    CHECK_FALSE(client.next());
  }
  CHECK(ask_for<VersionAnswer>(served, AskVersion{}).live_jobs == 0);
}

}  // namespace
}  // namespace muster
