/* libpyxsim: the functions of pyxsim.h over pyxsim.embed.calls.
 *
 * Messages go into the inbox without Python; Python and its lock are entered once for each call that advances. */

#include <Python.h>
#include <string.h>

#include "inbox.h"
#include "pyxsim.h"

#define MOST_TEXT 1024

static _Thread_local char last_error[MOST_TEXT];

struct pyxsim_simulator {
    PyObject *calls;   /* the module pyxsim.embed.calls */
    PyObject *python;  /* the Simulator */
    PyObject *advance; /* its function */
    PyObject *names;   /* of the links, a list */
    pyxsim_inbox *inbox;
    double clock_hz;
    int64_t links;
};

const char *pyxsim_error(void) { return last_error; }

static int failed(int code, const char *text) {
    snprintf(last_error, MOST_TEXT, "%s", text);
    return code;
}

/* -- Python -- */

static pthread_mutex_t starting = PTHREAD_MUTEX_INITIALIZER;

/* Find the package that this library was built with, also where Python would find another one or none. */
static const char *const find_package = "import importlib.util, os, sys\n"
                                        "spec = importlib.util.find_spec('pyxsim')\n"
                                        "found = spec and os.path.dirname(os.path.dirname(spec.origin or ''))\n"
                                        "if not found or not os.path.samefile(found, folder):\n"
                                        "    sys.path.insert(0, folder)\n";

static int find_pyxsim(void) {
    PyObject *names = PyDict_New(), *folder = PyUnicode_DecodeFSDefault(PYXSIM_FOLDER), *done = NULL;
    if (names != NULL && folder != NULL && PyDict_SetItemString(names, "folder", folder) == 0 &&
        PyDict_SetItemString(names, "__builtins__", PyEval_GetBuiltins()) == 0)
        done = PyRun_String(find_package, Py_file_input, names, names);
    Py_XDECREF(names);
    Py_XDECREF(folder);
    PyErr_Clear(); /* the import of pyxsim tells what is missing */
    Py_XDECREF(done);
    return done != NULL;
}

/* Start Python, if this process has none, with the packages of the Python that built this library. */
static int start_python(void) {
    int code = PYXSIM_OK;
    pthread_mutex_lock(&starting);
    if (!Py_IsInitialized()) {
        const char *chosen = getenv("PYXSIM_PYTHON");
        PyConfig config;
        PyStatus status;
        PyConfig_InitPythonConfig(&config);
        config.install_signal_handlers = 0;
        config.parse_argv = 0;
        status = PyConfig_SetBytesString(&config, &config.program_name, chosen && *chosen ? chosen : PYXSIM_PYTHON);
        if (!PyStatus_Exception(status))
            status = Py_InitializeFromConfig(&config);
        PyConfig_Clear(&config);
        if (PyStatus_Exception(status)) {
            code = failed(PYXSIM_NO_PYTHON, status.err_msg ? status.err_msg : "Python cannot be started");
        } else {
            find_pyxsim();
            PyEval_SaveThread();
        }
    }
    pthread_mutex_unlock(&starting);
    return code;
}

/* The code of Python's current error, whose text becomes the last one. */
static int python_failed(void) {
    PyObject *kind, *error, *trace, *calls, *answer = NULL;
    int code = PYXSIM_BUG;
    PyErr_Fetch(&kind, &error, &trace);
    PyErr_NormalizeException(&kind, &error, &trace);
    calls = PyImport_ImportModule("pyxsim.embed.calls");
    if (calls != NULL && error != NULL)
        answer = PyObject_CallMethod(calls, "explained", "O", error);
    if (answer != NULL) {
        const char *text = PyUnicode_AsUTF8(PyTuple_GetItem(answer, 1));
        code = failed((int)PyLong_AsLong(PyTuple_GetItem(answer, 0)), text ? text : "");
    } else {
        PyErr_Clear();
        PyObject *text = error ? PyObject_Str(error) : NULL;
        const char *words = text ? PyUnicode_AsUTF8(text) : NULL;
        code = failed(calls ? PYXSIM_BUG : PYXSIM_NO_PYTHON, words ? words : "Python failed");
        Py_XDECREF(text);
    }
    PyErr_Clear();
    Py_XDECREF(answer);
    Py_XDECREF(calls);
    Py_XDECREF(kind);
    Py_XDECREF(error);
    Py_XDECREF(trace);
    return code;
}

/* -- a simulator -- */

static void forget(pyxsim_simulator *simulator) {
    Py_XDECREF(simulator->names);
    Py_XDECREF(simulator->advance);
    Py_XDECREF(simulator->python);
    Py_XDECREF(simulator->calls);
    free(simulator);
}

static int fill(pyxsim_simulator *simulator, const char *function, const char *source, const char *backend) {
    PyObject *made, *capsule;
    simulator->calls = PyImport_ImportModule("pyxsim.embed.calls");
    if (simulator->calls == NULL)
        return -1;
    made = PyObject_CallMethod(simulator->calls, function, "ss", source, backend ? backend : "packet");
    if (made == NULL)
        return -1;
    simulator->python = Py_NewRef(PyTuple_GetItem(made, 0));
    simulator->advance = Py_NewRef(PyTuple_GetItem(made, 1));
    simulator->names = Py_NewRef(PyTuple_GetItem(made, 2));
    simulator->clock_hz = PyFloat_AsDouble(PyTuple_GetItem(made, 3));
    capsule = PyTuple_GetItem(made, 4);
    simulator->inbox = (pyxsim_inbox *)PyCapsule_GetPointer(capsule, PYXSIM_INBOX);
    simulator->links = PyList_Size(simulator->names);
    Py_DECREF(made);
    return simulator->inbox == NULL ? -1 : 0;
}

static int create(const char *function, const char *source, const char *backend, pyxsim_simulator **simulator) {
    pyxsim_simulator *made;
    PyGILState_STATE state;
    int code;
    if (source == NULL || simulator == NULL)
        return failed(PYXSIM_INPUT, "an argument is NULL");
    *simulator = NULL;
    if ((code = start_python()) != PYXSIM_OK)
        return code;
    if ((made = (pyxsim_simulator *)calloc(1, sizeof *made)) == NULL)
        return failed(PYXSIM_BUG, "no memory");
    state = PyGILState_Ensure();
    if (fill(made, function, source, backend) == 0) {
        *simulator = made;
    } else {
        code = python_failed();
        forget(made);
    }
    PyGILState_Release(state);
    return code;
}

int pyxsim_create(const char *settings, const char *backend, pyxsim_simulator **simulator) {
    return create("from_text", settings, backend, simulator);
}

int pyxsim_create_from_file(const char *path, const char *backend, pyxsim_simulator **simulator) {
    return create("from_file", path, backend, simulator);
}

void pyxsim_destroy(pyxsim_simulator *simulator) {
    PyGILState_STATE state;
    if (simulator == NULL)
        return;
    state = PyGILState_Ensure();
    forget(simulator);
    PyGILState_Release(state);
}

int64_t pyxsim_npus(const pyxsim_simulator *simulator) { return simulator->inbox->npus; }

double pyxsim_clock_hz(const pyxsim_simulator *simulator) { return simulator->clock_hz; }

/* -- messages -- */

static int refused(pyxsim_simulator *simulator, const pyxsim_request *request, int64_t refusal) {
    char problem[128], allowed[128], text[300];
    pyxsim_refusal_text(simulator->inbox, request, refusal, problem, allowed);
    snprintf(text, sizeof text, *allowed ? "%s; allowed: %s" : "%s", problem, allowed);
    return failed(PYXSIM_INPUT, text);
}

static int put(pyxsim_simulator *simulator, const pyxsim_request *request) {
    int64_t wrong, answer = pyxsim_inbox_put(simulator->inbox, request, 1, &wrong);
    return answer < 0 ? refused(simulator, request, answer) : PYXSIM_OK;
}

int pyxsim_send_at(
    pyxsim_simulator *simulator, int64_t cycle, int64_t src, int64_t dst, int64_t bytes, int64_t tag,
    pyxsim_callback callback, void *argument
) {
    pyxsim_request request = {cycle, src, dst, bytes, tag, callback, callback ? argument : NULL, PYXSIM_SEND};
    return put(simulator, &request);
}

int pyxsim_send(
    pyxsim_simulator *simulator, int64_t src, int64_t dst, int64_t bytes, int64_t tag, pyxsim_callback callback,
    void *argument
) {
    return pyxsim_send_at(simulator, PYXSIM_AT_ONCE, src, dst, bytes, tag, callback, argument);
}

int pyxsim_recv(
    pyxsim_simulator *simulator, int64_t src, int64_t dst, int64_t bytes, int64_t tag, pyxsim_callback callback,
    void *argument
) {
    pyxsim_request request = {
        PYXSIM_AT_ONCE, src, dst, bytes, tag, callback, callback ? argument : NULL, PYXSIM_RECV
    };
    return put(simulator, &request);
}

int pyxsim_schedule(pyxsim_simulator *simulator, int64_t delay, pyxsim_callback callback, void *argument) {
    pyxsim_request request = {0, 0, 0, 0, 0, callback, argument, PYXSIM_SCHEDULE};
    pyxsim_inbox *inbox = simulator->inbox;
    int64_t answer;
    if (delay < 0 || delay > PYXSIM_MOST || callback == NULL)
        return failed(PYXSIM_INPUT, callback ? "a delay is 0 to 2^62 cycles" : "the callback is NULL");
    pthread_mutex_lock(&inbox->lock);
    request.at = inbox->now + delay;
    answer = pyxsim_inbox_check(inbox, &request);
    if (!answer)
        answer = pyxsim_inbox_add(inbox, &request, 1);
    pthread_mutex_unlock(&inbox->lock);
    return answer < 0 ? refused(simulator, &request, answer) : PYXSIM_OK;
}

int pyxsim_submit(pyxsim_simulator *simulator, const pyxsim_message *messages, int64_t count, int64_t *first) {
    pyxsim_request *requests;
    int64_t i, wrong = 0, answer;
    int code = PYXSIM_OK;
    if (count < 0 || (messages == NULL && count))
        return failed(PYXSIM_INPUT, "there are no messages");
    requests = (pyxsim_request *)calloc((size_t)count + 1, sizeof *requests);
    if (requests == NULL)
        return failed(PYXSIM_BUG, "no memory");
    for (i = 0; i < count; i++) {
        requests[i].at = messages[i].cycle;
        requests[i].src = messages[i].src;
        requests[i].dst = messages[i].dst;
        requests[i].size = messages[i].bytes;
        requests[i].kind = PYXSIM_SUBMIT;
    }
    answer = pyxsim_inbox_put(simulator->inbox, requests, count, &wrong);
    if (answer < 0)
        code = refused(simulator, &requests[wrong], answer);
    else if (first != NULL)
        *first = answer;
    free(requests);
    return code;
}

/* Let a function of pyxsim.embed.calls fill memory. Returns its number, or -1 with the code of the error. */
static int64_t filled(pyxsim_simulator *simulator, const char *function, void *memory, int64_t bytes, int *code) {
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *view = PyMemoryView_FromMemory((char *)memory, (Py_ssize_t)bytes, PyBUF_WRITE), *answer = NULL;
    int64_t number = -1;
    *code = PYXSIM_OK;
    if (view != NULL)
        answer = PyObject_CallMethod(simulator->calls, function, "OO", simulator->python, view);
    if (answer != NULL)
        number = PyLong_AsLongLong(answer);
    else
        *code = python_failed();
    Py_XDECREF(answer);
    Py_XDECREF(view);
    PyGILState_Release(state);
    return number;
}

int pyxsim_take_arrivals(pyxsim_simulator *simulator, pyxsim_arrival *arrivals, int64_t most, int64_t *count) {
    int code;
    if (arrivals == NULL || most < 1 || count == NULL)
        return failed(PYXSIM_INPUT, "there is no space for arrivals");
    *count = filled(simulator, "take_arrivals", arrivals, most * (int64_t)sizeof *arrivals, &code);
    return code;
}

/* -- time -- */

static int advance(pyxsim_simulator *simulator, int64_t until) {
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *argument = until < 0 ? Py_NewRef(Py_None) : PyLong_FromLongLong(until), *answer = NULL;
    int code = PYXSIM_OK;
    if (argument != NULL)
        answer = PyObject_CallOneArg(simulator->advance, argument);
    if (answer == NULL)
        code = python_failed();
    Py_XDECREF(answer);
    Py_XDECREF(argument);
    PyGILState_Release(state);
    return code;
}

int pyxsim_advance_until(pyxsim_simulator *simulator, int64_t cycle) {
    return cycle < 0 ? failed(PYXSIM_INPUT, "a cycle is 0 or more") : advance(simulator, cycle);
}

int pyxsim_run(pyxsim_simulator *simulator) { return advance(simulator, -1); }

void pyxsim_stop(pyxsim_simulator *simulator) {
    pthread_mutex_lock(&simulator->inbox->lock);
    simulator->inbox->stopping = 1;
    pthread_mutex_unlock(&simulator->inbox->lock);
}

int64_t pyxsim_now(const pyxsim_simulator *simulator) {
    int64_t now;
    pthread_mutex_lock(&simulator->inbox->lock);
    now = simulator->inbox->now;
    pthread_mutex_unlock(&simulator->inbox->lock);
    return now;
}

double pyxsim_now_ns(const pyxsim_simulator *simulator) {
    return (double)pyxsim_now(simulator) * 1e9 / simulator->clock_hz;
}

/* A property of the Simulator that is a number. */
static int64_t number_of(pyxsim_simulator *simulator, const char *name) {
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *value = PyObject_GetAttrString(simulator->python, name);
    int64_t number = value != NULL ? PyLong_AsLongLong(value) : -1;
    Py_XDECREF(value);
    PyErr_Clear();
    PyGILState_Release(state);
    return number;
}

int64_t pyxsim_messages_in_flight(pyxsim_simulator *simulator) {
    return number_of(simulator, "messages_in_flight");
}

int64_t pyxsim_receptions_waiting(pyxsim_simulator *simulator) {
    return number_of(simulator, "receptions_waiting");
}

/* -- links -- */

int64_t pyxsim_link_count(const pyxsim_simulator *simulator) { return simulator->links; }

const char *pyxsim_link_name(const pyxsim_simulator *simulator, int64_t link) {
    const char *name = NULL;
    if (link >= 0 && link < simulator->links) {
        PyGILState_STATE state = PyGILState_Ensure();
        name = PyUnicode_AsUTF8(PyList_GetItem(simulator->names, (Py_ssize_t)link));
        PyErr_Clear();
        PyGILState_Release(state);
    }
    return name;
}

int pyxsim_link_statistics(pyxsim_simulator *simulator, pyxsim_link *links, int64_t count) {
    int code;
    if (links == NULL || count < 0 || count > simulator->links)
        return failed(PYXSIM_INPUT, "there are not so many links");
    if (count)
        filled(simulator, "write_links", links, count * (int64_t)sizeof *links, &code);
    return count ? code : PYXSIM_OK;
}
