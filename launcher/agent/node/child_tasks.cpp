#include "launcher/agent/node/child_tasks.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <csignal>
#include <span>
#include <utility>

#include "launcher/agent/node/spawn.h"
#include "launcher/os/fd.h"
#include "launcher/wire/message_codec.h"

namespace muster {

namespace {

// What the child writes: "P<what it is at>\0" any number of times, then "A<answer>.", where the dot
// tells a whole answer from that of a child that died in the middle.
constexpr char progress_mark = 'P';
constexpr char answer_mark = 'A';
constexpr char whole_mark = '.';
// A telling is for a limit of minutes and for a person.
constexpr std::chrono::seconds telling_interval{1};

ChildTasks::Tell teller(int out) {
  return [out, next = std::chrono::steady_clock::time_point{}](std::string_view doing) mutable {
    const auto now = std::chrono::steady_clock::now();
    if (now < next) return;
    next = now + telling_interval;
    std::string text(1, progress_mark);
    text.append(doing.substr(0, doing.find('\0'))).push_back('\0');
    if (!write_all(out, text)) ::_exit(1);
  };
}

[[noreturn]] void work_in_child(const ChildTasks::Work& work, int out, pid_t parent) {
  reset_signals();
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);
  ::prctl(PR_SET_NAME, "muster-task");
  // A child that hangs in the kernel outlives the agent: it must not keep its lock and sockets.
  out = ::dup2(out, STDERR_FILENO + 1);
  ::fcntl(out, F_SETFD, FD_CLOEXEC);  // nor must what it starts keep its answer from ending
  ::closefrom(STDERR_FILENO + 2);
  const std::string answer = answer_mark + work(teller(out)) + whole_mark;
  ::_exit(write_all(out, answer) ? 0 : 1);
}

// How exactly the end of a rank is known: since the last look at which it lived, however long the
// agent was held up meanwhile. A look costs about 50 us of a core, with waking up for it. One that
// comes a whole interval late says that there are not enough of them: then half as many follow.
constexpr std::chrono::milliseconds usual_look{5};
constexpr std::chrono::milliseconds rarest_look{40};

}  // namespace

struct ChildTasks::Task {
  explicit Task(boost::asio::io_context& io) : pipe(io), timer(io) {}
  TaskId id = 0;
  pid_t pid = 0;  // 0: reaped
  Milliseconds limit{0};
  boost::asio::posix::stream_descriptor pipe;
  boost::asio::steady_timer timer;
  std::array<char, 65536> buffer;
  std::string answer;
  std::string doing;
  Done done;
  Told on_told;

  void kill() const {
    if (pid > 0) ::kill(pid, SIGKILL);
  }
  bool is_whole() const {
    return answer.size() >= 2 && answer.front() == answer_mark && answer.back() == whole_mark;
  }
  // Its answer is here, whoever else still holds the pipe.
  bool has_said_all() {
    int unread = 0;
    return pid == 0 && is_whole() && ::ioctl(pipe.native_handle(), FIONREAD, &unread) == 0 &&
           unread == 0;
  }
  // True when the child told something.
  bool take_progress() {
    bool told = false;
    for (std::size_t end = 0;
         answer.starts_with(progress_mark) && (end = answer.find('\0')) != std::string::npos;) {
      doing = answer.substr(1, end - 1);
      answer.erase(0, end + 1);
      told = true;
    }
    return told;
  }
};

ChildTasks::ChildTasks(boost::asio::io_context& io) : io_(io) {}

ChildTasks::~ChildTasks() {
  for (const auto& [id, task] : tasks_) task->kill();
}

ChildTasks::TaskId ChildTasks::run(Work work, Milliseconds limit, Done done, Told told) {
  const TaskId id = next_id_++;
  const auto refuse = [&](Error why) {  // later, as any other answer: the caller is not ready yet
    boost::asio::post(io_, [done, why = std::move(why)] { done(why); });
    return id;
  };
  auto pipe = make_pipe();
  if (!pipe) return refuse(system_error("make a pipe"));
  const pid_t parent = ::getpid();
  auto task = std::make_shared<Task>(io_);
  task->pid = ::fork();
  if (task->pid == 0) work_in_child(work, pipe->write_end.get(), parent);
  if (task->pid < 0) return refuse(system_error("start a process"));
  task->id = id;
  task->limit = limit;
  task->done = std::move(done);
  task->on_told = std::move(told);
  task->pipe.assign(pipe->read_end.release());
  tasks_[id] = task;
  watch_silence(task);
  read_more(task);
  return id;
}

void ChildTasks::stop(TaskId id) {
  if (const auto found = tasks_.find(id); found != tasks_.end()) found->second->kill();
}

pid_t ChildTasks::process_of(TaskId id) const {
  const auto found = tasks_.find(id);
  return found == tasks_.end() ? 0 : found->second->pid;
}

bool ChildTasks::reaped(pid_t pid) {
  for (const auto& [id, task] : tasks_) {
    if (task->pid != pid) continue;
    task->pid = 0;
    boost::asio::post(io_, [this, held = task] {
      if (held->done && held->has_said_all()) conclude(held);
    });
    return true;
  }
  return false;
}

void ChildTasks::watch_silence(const std::shared_ptr<Task>& task) {
  task->timer.expires_after(task->limit);
  task->timer.async_wait([this, task](const boost::system::error_code& error) {
    if (error || !task->done || task->timer.expiry() > std::chrono::steady_clock::now()) return;
    task->kill();
    const auto limit_s = std::chrono::duration_cast<std::chrono::seconds>(task->limit).count();
    finish(task, Error{"nothing moved for " + std::to_string(limit_s) + " s" +
                       (task->doing.empty() ? "" : ", last at '" + task->doing + "'")});
  });
}

void ChildTasks::read_more(const std::shared_ptr<Task>& task) {
  task->pipe.async_read_some(
      boost::asio::buffer(task->buffer),
      [this, task](const boost::system::error_code& error, std::size_t count) {
        if (error == boost::asio::error::operation_aborted) return;
        task->answer.append(task->buffer.data(), count);
        if (task->done && task->take_progress()) {
          watch_silence(task);
          if (task->on_told) task->on_told(task->doing);
        }
        if (!error && !task->has_said_all()) return read_more(task);
        conclude(task);
      });
}

void ChildTasks::conclude(const std::shared_ptr<Task>& task) {
  if (!task->is_whole()) return finish(task, Error{"the process that did it was killed"});
  finish(task, task->answer.substr(1, task->answer.size() - 2));
}

void ChildTasks::finish(const std::shared_ptr<Task>& task, Result<std::string> answer) {
  if (!task->done) return;
  const Done done = std::exchange(task->done, nullptr);
  task->timer.cancel();
  boost::system::error_code ignored;
  task->pipe.close(ignored);
  tasks_.erase(task->id);
  done(std::move(answer));
}

Result<FromAgent> message_of(const std::string& frame) {
  FrameReader reader;
  reader.feed(std::as_bytes(std::span(frame)));
  auto whole = reader.next();
  if (!whole || !*whole) return Error{"the child gave no answer"};
  auto received = decode<FromAgent>(std::move(**whole));
  if (!received) return received.error();
  return std::move(received->message);
}

ChildReaper::ChildReaper(boost::asio::io_context& io, ProcessTable& processes, Handlers handlers)
    : processes_(processes),
      handlers_(std::move(handlers)),
      timer_(io),
      interval_(usual_look),
      nobody_dead_at_(raw_time()) {}

bool ChildReaper::reap() {
  DeadChild child;
  child.earliest = nobody_dead_at_;
  bool found = false;
  while (true) {
    const RawTime now = raw_time();
    child.pid = processes_.reap(child.wait_status);
    if (child.pid <= 0) {
      nobody_dead_at_ = now;
      return found;
    }
    found = true;
    child.latest = raw_time();
    handlers_.on_dead(child);
  }
}

void ChildReaper::look() {
  if (reap()) handlers_.on_reaped();
}

void ChildReaper::look_often() {
  if (is_looking_ || !handlers_.is_wanted()) return;
  is_looking_ = true;
  // All agents of a machine look at the same moments, so that it is woken once for all of them.
  const auto now = Clock::now().time_since_epoch();
  timer_.expires_at(Clock::time_point((now / interval_ + 1) * interval_));
  timer_.async_wait([this](const boost::system::error_code& error) {
    is_looking_ = false;
    if (error) return;
    const bool is_late = Clock::now() - timer_.expiry() > usual_look;
    interval_ = is_late ? std::min(2 * interval_, rarest_look) : usual_look;
    look();
    look_often();
  });
}

}  // namespace muster
