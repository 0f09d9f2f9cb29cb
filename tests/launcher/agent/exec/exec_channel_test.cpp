// Sessions that are more than a command with pipes: terminals, connections to sockets of the node,
// and how much is on its way to who takes nothing.
#include <arpa/inet.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include "launcher/agent/exec/sessions.h"
#include "tests/catch.h"
#include "tests/launcher/agent/heard_line.h"

using namespace muster;

namespace {

constexpr std::int64_t window = 64 << 10;  // the least that is granted

class ScratchPlace {
 public:
  ScratchPlace() { REQUIRE(::mkdtemp(path_.data()) != nullptr); }
  ~ScratchPlace() { std::filesystem::remove_all(path_); }
  ScratchPlace(const ScratchPlace&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_ = "/tmp/muster-exec-XXXXXX";
};

// A program of this process that listens.
class Service {
 public:
  explicit Service(const std::string& path = "") {
    fd_ = Fd(::socket(path.empty() ? AF_INET : AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in any{};
    any.sin_family = AF_INET;
    any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    sockaddr_un named{};
    named.sun_family = AF_UNIX;
    path.copy(named.sun_path, sizeof named.sun_path - 1);
    const auto* address = path.empty() ? reinterpret_cast<const sockaddr*>(&any)
                                       : reinterpret_cast<const sockaddr*>(&named);
    REQUIRE(::bind(fd_.get(), address, path.empty() ? sizeof any : sizeof named) == 0);
    REQUIRE(::listen(fd_.get(), 4) == 0);
    socklen_t size = sizeof any;
    ::getsockname(fd_.get(), reinterpret_cast<sockaddr*>(&any), &size);
    port = std::to_string(ntohs(any.sin_port));
  }
  Fd accept() const {
    Fd peer(::accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    REQUIRE(peer);
    return peer;
  }
  std::string port;

 private:
  Fd fd_;
};

struct Channels {
  HeardLine heard;
  ExecSessions execs{heard.io, heard.line};

  static ExecStart request(const std::string& socket, std::vector<std::string> argv = {}) {
    ExecStart wanted{"e", JobId{"job"}, AttemptId{0}, RankId{0}, std::move(argv)};
    wanted.channel.emplace().window = window;
    wanted.channel->socket = socket;
    return wanted;
  }
  pid_t start(const std::string& script, const TerminalShape& shape) {
    ExecStart wanted = request("", {"bash", "-c", script});
    wanted.channel->terminal = shape;
    Environment environment{{"PATH", "/usr/bin:/bin"}};
    REQUIRE(complete(wanted, environment, "/"));
    const auto pid = execs.start(wanted, environment, "/");
    REQUIRE(pid);
    return *pid;
  }
  std::string& output() { return heard.controller->exec_output()["e"]; }
  bool says(const std::string& text) {
    return heard.turn_until([&] { return output().find(text) != std::string::npos; });
  }
  ExecEnded reap(pid_t pid) {
    int status = 0;
    REQUIRE(heard.turn_until([&] { return ::waitpid(pid, &status, WNOHANG) == pid; }));
    REQUIRE(execs.reaped(pid, status));
    return heard.expect<ExecEnded>();
  }
  std::string refused(const std::string& socket, const std::string& directory) {
    const Status begun = execs.connect(request(socket), directory);
    return begun ? heard.expect<ExecEnded>().error : begun.error().message;
  }
};

std::string read_now(const Fd& fd) {
  std::string bytes(4096, '\0');
  const ssize_t got = ::read(fd.get(), bytes.data(), bytes.size());
  bytes.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  return bytes;
}

}  // namespace

TEST_CASE("a program in a terminal knows its size, its name and that it has changed") {
  Channels one;
  const pid_t pid = one.start(
      "trap 'stty size; exit 7' WINCH; tty >&2; stty size; echo $TERM; while :; do sleep 0.05; "
      "done",
      {"vt220", 30, 90});
  REQUIRE(one.says("vt220"));
  CHECK_THAT(one.output(), ContainsSubstring("/dev/pts/"));
  CHECK_THAT(one.output(), ContainsSubstring("30 90"));
  one.execs.handle(ExecControl{"e", 0, 41, 99}, {});
  REQUIRE(one.says("41 99"));
  CHECK(one.reap(pid).status.code == 7);
}

TEST_CASE("what is typed reaches a terminal, and a name of one that is a path does not") {
  Channels one;
  const pid_t pid =
      one.start("echo $TERM; read word; echo got $word", {"../../etc/passwd", 24, 80});
  REQUIRE(one.says("dumb"));
  one.execs.input("e", "hello\r");
  REQUIRE(one.says("got hello"));
  CHECK(one.reap(pid).status.code == 0);
}

TEST_CASE("who closes a terminal ends all that runs in it, whatever group it is in") {
  Channels one;
  const pid_t pid = one.start("set -m; sleep 98 & sleep 99 & echo $!; wait", {"vt220", 24, 80});
  REQUIRE(one.says("\n"));
  const pid_t behind = std::stoi(one.output());
  one.execs.stop("e");
  CHECK(one.reap(pid).status.signal == SIGKILL);
  CHECK(eventually([&] { return !is_running(behind); }));
}

TEST_CASE("no more than the window is on its way to who takes nothing, and nothing is lost") {
  Channels one;
  const pid_t pid = one.start("stty raw; head -c 1000000 /dev/zero", {"vt220", 24, 80});
  REQUIRE(one.heard.turn_until([&] { return one.output().size() >= std::size_t{window}; }));
  for (int i = 0; i < 50; ++i) one.heard.turn_until([] { return true; });
  CHECK(one.output().size() < std::size_t{2 * window});
  CHECK(one.heard.is_silent_about<ExecEnded>());
  std::size_t taken = 0;
  const auto take_all = [&] {
    const auto more = static_cast<std::int64_t>(one.output().size() - taken);
    taken = one.output().size();
    if (more > 0) one.execs.handle(ExecControl{"e", more, 0, 0}, {});
    return taken == 1000000;
  };
  CHECK(one.heard.turn_until(take_all));
  CHECK(one.reap(pid).status.code == 0);
}

TEST_CASE("a connection to a port carries bytes and the end of each direction by itself") {
  Channels one;
  const Service service;
  REQUIRE(one.execs.connect(Channels::request(service.port), "/"));
  one.execs.input("e", "question");
  one.execs.input("e", {});
  const Fd peer = service.accept();
  std::string asked;
  REQUIRE(one.heard.turn_until([&] { return (asked += read_now(peer)) == "question"; }));
  REQUIRE(one.heard.turn_until([&] {
    char byte = 0;
    return ::read(peer.get(), &byte, 1) == 0;
  }));
  REQUIRE(::write(peer.get(), "answer", 6) == 6);
  REQUIRE(one.says("answer"));
  CHECK(one.heard.is_silent_about<ExecEnded>());
  ::shutdown(peer.get(), SHUT_WR);
  const auto ended = one.heard.expect<ExecEnded>();
  CHECK(ended.status.code == 0);
  CHECK(ended.error.empty());
}

TEST_CASE("who reads nothing is sent no more, and the asker is not told that it was taken") {
  Channels one;
  const Service service;
  REQUIRE(one.execs.connect(Channels::request(service.port), "/"));
  const Fd peer = service.accept();
  const std::string piece(16384, 'x');
  std::int64_t on_its_way = 0;
  std::int64_t sent = 0;
  for (int i = 0; i < 20000; ++i) {  // as a client does it
    one.heard.turn_until([] { return true; });
    while (const auto taken =
               one.heard.controller->await<ExecTaken>(std::chrono::milliseconds{0})) {
      on_its_way -= taken->bytes;
    }
    if (on_its_way >= window) break;
    one.execs.input("e", piece);
    on_its_way += std::ssize(piece);
    sent += std::ssize(piece);
  }
  CHECK(on_its_way >= window);
  std::int64_t read = 0;
  std::string bytes(1 << 20, '\0');
  REQUIRE(one.heard.turn_until([&] {
    const ssize_t got = ::read(peer.get(), bytes.data(), bytes.size());
    read += std::max<ssize_t>(0, got);
    return read == sent;
  }));
  CHECK(one.heard.await<ExecTaken>());
}

TEST_CASE("where nothing listens a sentence says so") {
  Channels one;
  std::string port;
  { port = Service().port; }
  CHECK(one.refused(port, "/") ==
        "could not connect to 127.0.0.1:" + port + ": Connection refused");
  CHECK_THAT(one.refused("70000", "/"), ContainsSubstring("neither a port nor"));
  CHECK_THAT(one.refused("0", "/"), ContainsSubstring("neither a port nor"));
}

TEST_CASE("only sockets in the job's directory can be reached, also by way of links") {
  const ScratchPlace here;
  const ScratchPlace elsewhere;
  Channels one;
  const Service inside(here.path() + "/in.sock");
  const Service outside(elsewhere.path() + "/out.sock");
  REQUIRE(::symlink((elsewhere.path() + "/out.sock").c_str(), (here.path() + "/link").c_str()) ==
          0);
  REQUIRE(::symlink(elsewhere.path().c_str(), (here.path() + "/folder").c_str()) == 0);
  REQUIRE(::close(::open((here.path() + "/file").c_str(), O_CREAT | O_WRONLY, 0600)) == 0);
  const Service beside(here.path() + ".sock");
  CHECK_FALSE(one.refused(here.path() + ".sock", here.path()).empty());
  ::unlink((here.path() + ".sock").c_str());
  if (::geteuid() == 0) {  // another account's
    REQUIRE(::chown((here.path() + "/in.sock").c_str(), 65534, 65534) == 0);
    CHECK_FALSE(one.refused(here.path() + "/in.sock", here.path()).empty());
    REQUIRE(::chown((here.path() + "/in.sock").c_str(), 0, 0) == 0);
  }
  for (const std::string& path :
       {elsewhere.path() + "/out.sock", here.path() + "/link", here.path() + "/folder/out.sock",
        here.path() + "/file", here.path() + "/../" + "x"}) {
    INFO(path);
    CHECK_FALSE(one.refused(path, here.path()).empty());
  }
  REQUIRE(one.execs.connect(Channels::request(here.path() + "/in.sock"), here.path()));
  const Fd peer = inside.accept();
  REQUIRE(::write(peer.get(), "hello", 5) == 5);
  CHECK(one.says("hello"));
}

TEST_CASE("connections end with their attempt, those of others go on") {
  Channels one;
  const Service service;
  REQUIRE(one.execs.connect(Channels::request(service.port), "/"));
  const Fd peer = service.accept();
  one.execs.end_connections({JobId{"other"}, AttemptId{0}});
  CHECK(one.heard.is_silent_about<ExecEnded>());
  one.execs.end_connections({JobId{"job"}, AttemptId{0}});
  CHECK(one.heard.expect<ExecEnded>().error == "the attempt is over");
  char byte = 0;
  CHECK(::read(peer.get(), &byte, 1) == 0);
}

TEST_CASE("sshd gets the rank's variables and keys in files of this account alone") {
  const ScratchPlace place;
  ExecStart wanted = Channels::request("");
  wanted.channel->ssh = SshKeys{"secret", "ssh-ed25519 AAAA"};
  Environment environment{{"COLOUR", "light blue"}, {"HOME", "/root"}, {"EVIL", "x\nPort 9"}};
  const Status made = complete(wanted, environment, place.path());
  if (!made) {
    CHECK_THAT(made.error().message, ContainsSubstring("openssh-server"));
    return;
  }
  CHECK(wanted.argv.at(1) == "-i");
  const std::string text = read_file(place.path() + "/ssh/sshd_config");
  CHECK_THAT(text, ContainsSubstring("\"COLOUR=light blue\""));
  CHECK_THAT(text, ContainsSubstring("PasswordAuthentication no"));
  CHECK_THAT(text, !ContainsSubstring("EVIL"));
  CHECK_THAT(text, !ContainsSubstring("HOME="));
  for (const auto& word : wanted.argv) CHECK_THAT(word, !ContainsSubstring("secret"));
  struct stat facts {};
  REQUIRE(::stat((place.path() + "/ssh/host_key").c_str(), &facts) == 0);
  CHECK((facts.st_mode & 0777) == 0600);
  REQUIRE(::stat((place.path() + "/ssh").c_str(), &facts) == 0);
  CHECK((facts.st_mode & 0777) == 0700);
}
