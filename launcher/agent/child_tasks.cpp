#include "launcher/agent/child_tasks.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <csignal>

#include "launcher/agent/spawn.h"
#include "launcher/os/fd.h"

namespace muster {

namespace {

// A whole answer ends with this byte; a child that dies in the middle does not write it.
constexpr char whole_mark = '.';

[[noreturn]] void work_in_child(const ChildTasks::Work& work, int out, pid_t parent) {
  reset_signals();
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);
  ::prctl(PR_SET_NAME, "muster-task");
  // A child that hangs in the kernel outlives the agent: it must not keep its lock and sockets.
  out = ::dup2(out, STDERR_FILENO + 1);
  close_descriptors_from(STDERR_FILENO + 2);
  std::string answer = work();
  answer.push_back(whole_mark);
  for (std::size_t at = 0; at < answer.size();) {
    const ssize_t put = ::write(out, answer.data() + at, answer.size() - at);
    if (put <= 0) ::_exit(1);
    at += static_cast<std::size_t>(put);
  }
  ::_exit(0);
}

}  // namespace

struct ChildTasks::Task {
  explicit Task(boost::asio::io_context& io) : pipe(io), timer(io) {}
  pid_t pid = 0;
  boost::asio::posix::stream_descriptor pipe;
  boost::asio::steady_timer timer;
  std::array<char, 65536> buffer;
  std::string answer;
  Done done;
};

ChildTasks::ChildTasks(boost::asio::io_context& io) : io_(io) {}

ChildTasks::~ChildTasks() {
  for (const auto& task : tasks_) ::kill(task->pid, SIGKILL);
}

void ChildTasks::run(Work work, Milliseconds limit, Done done) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return done({});
  Fd read_end(ends[0]);
  Fd write_end(ends[1]);
  const pid_t parent = ::getpid();
  auto task = std::make_shared<Task>(io_);
  task->pid = ::fork();
  if (task->pid == 0) work_in_child(work, write_end.get(), parent);
  if (task->pid < 0) return done({});
  task->done = std::move(done);
  task->pipe.assign(read_end.release());
  task->timer.expires_after(limit);
  task->timer.async_wait([this, task](const boost::system::error_code& error) {
    if (error) return;
    ::kill(task->pid, SIGKILL);
    finish(task, false);
  });
  tasks_.push_back(task);
  read_more(task);
}

void ChildTasks::read_more(const std::shared_ptr<Task>& task) {
  task->pipe.async_read_some(
      boost::asio::buffer(task->buffer),
      [this, task](const boost::system::error_code& error, std::size_t count) {
        if (error == boost::asio::error::operation_aborted) return;
        task->answer.append(task->buffer.data(), count);
        if (!error) return read_more(task);
        finish(task, !task->answer.empty() && task->answer.back() == whole_mark);
      });
}

void ChildTasks::finish(const std::shared_ptr<Task>& task, bool whole) {
  if (!task->done) return;
  const Done done = std::exchange(task->done, nullptr);
  task->timer.cancel();
  boost::system::error_code ignored;
  task->pipe.close(ignored);
  tasks_.remove(task);
  if (!whole) return done({});
  task->answer.pop_back();
  done(std::move(task->answer));
}

}  // namespace muster
