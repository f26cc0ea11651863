/* What Cython has no words for: a method that is called without a dict, a tuple of a subclass. */
#ifndef MTA_PUSH_CALL_H
#define MTA_PUSH_CALL_H

#include <Python.h>

typedef PyObject *(*mta_fast_call)(PyObject *, PyObject *const *, Py_ssize_t, PyObject *);

static PyMethodDef mta_push_method = {"push", NULL, METH_FASTCALL | METH_KEYWORDS, NULL};

/* Make `call` the method `push` of a type; `doc` has to stay. */
static inline PyObject *mta_replace_push(PyObject *type, mta_fast_call call, const char *doc) {
    PyObject *method;
    mta_push_method.ml_meth = (PyCFunction)(void (*)(void))call;
    mta_push_method.ml_doc = doc;
    method = PyDescr_NewMethod((PyTypeObject *)type, &mta_push_method);
    if (!method || PyDict_SetItemString(((PyTypeObject *)type)->tp_dict, "push", method) < 0) {
        Py_XDECREF(method);
        return NULL;
    }
    PyType_Modified((PyTypeObject *)type);
    return method;
}

/* An instance of a subclass of tuple, as tuple.__new__ makes it. */
static inline PyObject *mta_new_tuple(PyObject *type, PyObject *values) {
    Py_ssize_t i, n = PyList_GET_SIZE(values);
    PyObject *made = ((PyTypeObject *)type)->tp_alloc((PyTypeObject *)type, n);
    for (i = 0; made && i < n; i++) {
        PyObject *value = PyList_GET_ITEM(values, i);
        Py_INCREF(value);
        PyTuple_SET_ITEM(made, i, value);
    }
    return made;
}

#endif
