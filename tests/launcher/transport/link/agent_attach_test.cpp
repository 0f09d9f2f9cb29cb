#include "launcher/transport/link/agent_attach.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>

#include "tests/catch.h"
#include "tests/launcher/transport/test_cluster.h"

namespace muster {
namespace {

// A host with a shell: attaching prints `before`, then what the agent says if muster is there;
// copying puts it there.
struct FakeHost {
  boost::asio::io_context& io;
  std::string before;
  bool has_muster = false;
  bool copies_vanish = false;
  std::string uname = "Linux x86_64";
  std::string agent_says = "MUSTER-ATTACHED\n";
  int copies = 0;
  std::string copied = {};
  std::vector<std::string> push_says = {"MUSTER-PUSHED\n"};
  std::string push_complains = {};
};

class FakeProcess final : public RemoteProcess {
 public:
  FakeProcess(FakeHost& host, bool is_push) : host_(host), is_push_(is_push) {}

  void handle(Handlers handlers) override {
    handlers_ = std::make_shared<Handlers>(std::move(handlers));
    if (!std::exchange(started_, true) && !is_push_) later([this] { attach(); });
  }
  void write(std::string bytes) override {
    host_.copied += bytes;
    later([this] { handlers_->on_drained(); });
  }
  void close_stdin() override {
    later([this] {
      ++host_.copies;
      host_.has_muster = !host_.copies_vanish;
      for (const std::string& part : host_.push_says) print(part);
      if (auto handlers = handlers_) handlers->on_stderr(host_.push_complains);
      exit(0);
    });
  }
  void pause(bool) override {}
  std::size_t queued_bytes() const override { return 0; }

 private:
  void attach() {
    const bool has_muster = host_.has_muster;
    for (const std::string& part :
         {host_.before, std::string("MUSTER-"), std::string("SHELL\n"),  // cut where it hurts
          has_muster ? host_.agent_says : "MUSTER-PUSH " + host_.uname + "\n"}) {
      later([this, part] { print(part); });
    }
    if (!has_muster) exit(0);
  }
  void print(const std::string& text) {
    if (auto handlers = handlers_) handlers->on_stdout(std::as_bytes(std::span(text)));
  }
  void exit(int status) {
    later([this, status] { handlers_->on_exit({status, ""}); });
  }
  template <class Call>
  void later(Call call) {
    boost::asio::post(host_.io, [alive = std::weak_ptr(alive_), call] {
      if (!alive.expired()) call();
    });
  }

  FakeHost& host_;
  bool is_push_;
  bool started_ = false;
  std::shared_ptr<Handlers> handlers_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

class FakeShell final : public RemoteShell {
 public:
  explicit FakeShell(FakeHost& host) : host_(host) {}
  std::unique_ptr<RemoteProcess> run(const std::string& command) override {
    return std::make_unique<FakeProcess>(host_, command.find("muster-push") != command.npos);
  }

 private:
  FakeHost& host_;
};

struct Scene {
  boost::asio::io_context io;
  TemporaryFolder folder;
  AgentLaunch launch = fake_agent(folder, "b1", "exit 0");
  std::shared_ptr<PushGate> gate = std::make_shared<PushGate>(io);

  std::vector<AttachResult> attach(std::vector<FakeHost*> hosts) {
    std::vector<AttachResult> results(hosts.size());
    std::vector<std::shared_ptr<AgentAttach>> attempts;
    for (std::size_t i = 0; i < hosts.size(); ++i) {
      NodeAddress node;
      node.id = NodeId{"n" + std::to_string(i)};
      attempts.push_back(
          attach_agent(io, std::make_shared<FakeShell>(*hosts[i]), gate, node, launch, nullptr,
                       [&results, i](AttachResult result) { results[i] = std::move(result); }));
    }
    io.restart();
    io.run();
    return results;
  }

  AttachResult attach(FakeHost& host) { return std::move(attach(std::vector{&host}).front()); }
};

std::string failure_of(const AttachResult& result) {
  const auto* failure = std::get_if<LinkFailure>(&result);
  return failure == nullptr ? "" : failure->message;
}

}  // namespace

TEST_CASE("noise before the marker is skipped and bytes behind it are kept") {
  Scene scene;
  FakeHost host{scene.io, "Welcome!\nYou have mail.\n"};
  host.has_muster = true;
  host.agent_says = "warning\nMUSTER-ATTACHED\nfirst frame";
  const auto result = scene.attach(host);
  REQUIRE(std::holds_alternative<Attached>(result));
  CHECK(std::get<Attached>(result).first_bytes == "first frame");
}

TEST_CASE("an agent that speaks before any script is taken") {
  Scene scene;
  FakeHost host{scene.io, "Welcome!\nMUSTER-ATTACHED\n"};
  host.has_muster = true;
  host.agent_says = "";
  const auto result = scene.attach(host);
  REQUIRE(std::holds_alternative<Attached>(result));
}

TEST_CASE("endless noise is refused") {
  Scene scene;
  FakeHost host{scene.io, std::string(70 * 1024, 'y')};
  CHECK_THAT(failure_of(scene.attach(host)), ContainsSubstring("more than 64 KiB"));
}

TEST_CASE("a missing binary is copied once and then run") {
  Scene scene;
  FakeHost host{scene.io, ""};
  CHECK(std::holds_alternative<Attached>(scene.attach(host)));
  CHECK(host.copies == 1);
  CHECK(host.copied == read_text(scene.launch.binary));
}

TEST_CASE("a copy is known to be in place whatever start files print before that, and how much") {
  Scene scene;
  FakeHost host{scene.io, ""};
  host.push_says = {"Welcome!\n"};
  for (int i = 0; i < 30; ++i) host.push_says.push_back(std::string(4096, 'y'));
  host.push_says.insert(host.push_says.end(), {"\nMUSTER-PU", "SHED\n", "bye\n"});
  CHECK(std::holds_alternative<Attached>(scene.attach(host)));
  CHECK(host.copies == 1);
}

TEST_CASE("a copy that does not say that it is in place has failed, with the node's reason") {
  Scene scene;
  FakeHost host{scene.io, ""};
  host.push_says = {"MUSTER-PUSHE\n"};
  host.push_complains = "cat: write error: No space left on device\n";
  const auto result = scene.attach(host);
  CHECK_THAT(failure_of(result), ContainsSubstring("No space left on device"));
  CHECK(std::get<LinkFailure>(result).kind == LinkFailureKind::disk_full);
}

TEST_CASE("a binary that is missing again after the copy is an error, not a loop") {
  Scene scene;
  FakeHost host{scene.io, ""};
  host.copies_vanish = true;
  CHECK_THAT(failure_of(scene.attach(host)), ContainsSubstring("noexec"));
  CHECK(host.copies == 1);
}

TEST_CASE("a node of another architecture gets nothing") {
  Scene scene;
  std::string elf =
      "\x7f"
      "ELF";
  elf.resize(64);
  elf[18] = 62;
  write_text(scene.launch.binary, elf);
  FakeHost host{scene.io, ""};
  host.uname = "Linux aarch64";
  const auto result = scene.attach(host);
  CHECK_THAT(failure_of(result), ContainsSubstring("the node is Linux aarch64"));
  CHECK(std::get<LinkFailure>(result).kind == LinkFailureKind::wrong_build);
  CHECK(host.copies == 0);
}

TEST_CASE("a program of ours that cannot be read is said so") {
  Scene scene;
  scene.launch.binary = "/nonexistent/muster";
  FakeHost host{scene.io, ""};
  CHECK_THAT(failure_of(scene.attach(host)), ContainsSubstring("/nonexistent/muster"));
}

TEST_CASE("with private homes the copies that waited go on after the first") {
  Scene scene;
  std::vector<std::unique_ptr<FakeHost>> hosts;
  std::vector<FakeHost*> all;
  for (int i = 0; i < 40; ++i) {
    hosts.push_back(std::make_unique<FakeHost>(FakeHost{scene.io, ""}));
    all.push_back(hosts.back().get());
  }
  for (const auto& result : scene.attach(all)) CHECK(std::holds_alternative<Attached>(result));
  for (const auto& host : hosts) CHECK(host->copies == 1);
}

TEST_CASE("a failed copy lets the next one try") {
  Scene scene;
  FakeHost bad{scene.io, ""}, good{scene.io, ""};
  bad.copies_vanish = true;
  const auto results = scene.attach({&bad, &good});
  CHECK(std::holds_alternative<LinkFailure>(results[0]));
  CHECK(std::holds_alternative<Attached>(results[1]));
}

}  // namespace muster
